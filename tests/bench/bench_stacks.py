"""How long it takes to merge the stacks of many ranks, and how large a dump is.

``python -m tests.bench --only stacks``"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from launchmon_agent import codec
from launchmon_agent.events import Frame, Stacks
from launchmon_agent.stacks.merge import merge
from launchmon_agent.stacks.render import text
from tests.bench.result import Result, run
from tests.support.stacks_text import dump

GROUPS = 12
RANKS, FRAMES = 512, 60


def synthetic(ranks: int, depth: int) -> Stacks:
    """Ranks that part at a random depth into a dozen groups, each on lines of its own."""
    chance = random.Random(4)
    home = "/opt/venv/lib/python3.11/site-packages/sglang/srt"
    stacks = {}
    for number in range(ranks):
        group = chance.randrange(GROUPS)
        parts = depth * (group + 1) // (GROUPS + 1)
        outer = [Frame(f"Class.common_{n}", f"{home}/part_{n % 9}.py", n) for n in range(parts)]
        inner = [
            Frame(f"Class.function_{group}_{n}", f"{home}/model_{group}.py", 10 * n + chance.randrange(3))
            for n in range(parts, depth)
        ]
        stacks[f"DP{number // 8} TP{number % 8}"] = [*reversed(inner), *reversed(outer)]
    return dump(stacks)


def results(quick: bool) -> Iterator[Result]:
    ranks = RANKS // 4 if quick else RANKS
    taken = synthetic(ranks, FRAMES)
    earlier = [synthetic(ranks, FRAMES) for _ in range(3)]
    merge(synthetic(8, 8))  # reads the tables
    what = f"{ranks} ranks × {FRAMES} frames"
    begin = time.process_time()
    merged = merge(taken)
    yield Result(f"merge of {what}", 1000 * (time.process_time() - begin), "ms", 200)
    begin = time.process_time()
    merge(taken, earlier)
    yield Result("the same, compared with 3 earlier dumps", 1000 * (time.process_time() - begin), "ms")
    begin = time.process_time()
    text(merged)
    yield Result("the same as text", 1000 * (time.process_time() - begin), "ms")
    yield Result("the dump on the wire", len(codec.encode(taken)) / 1024, "KiB")


if __name__ == "__main__":
    run(results)
