"""How long it takes to merge the stacks of many ranks, and how large a dump is. Run it by hand::

PYTHONPATH=src:. python tests/bench/bench_stacks.py [RANKS] [FRAMES]
"""

from __future__ import annotations

import random
import sys
import time

from launchmon_agent import events
from launchmon_agent.events import Frame, Stacks
from launchmon_agent.stacks.merge import merge
from launchmon_agent.stacks.render import text
from tests.support.stacks_text import dump

GROUPS = 12


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


def main() -> None:
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    depth = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    taken = synthetic(ranks, depth)
    earlier = [synthetic(ranks, depth) for _ in range(3)]
    merge(synthetic(8, 8))  # reads the tables
    begin = time.process_time()
    merged = merge(taken)
    once = time.process_time() - begin
    begin = time.process_time()
    merge(taken, earlier)
    compared = time.process_time() - begin
    begin = time.process_time()
    printed = text(merged)
    rendered = time.process_time() - begin
    print(f"{ranks} ranks × {depth} frames, {len(taken.frames)} different ones, {len(merged.groups)} groups")
    print(f"  merge                          {1000 * once:6.1f} ms of CPU (budget 200)")
    print(f"  merge, compared with 3 dumps   {1000 * compared:6.1f} ms")
    print(f"  text                           {1000 * rendered:6.1f} ms, {len(printed.splitlines())} lines")
    print(f"  on the wire                    {len(events.encode(taken)) / 1024:6.0f} KiB")


if __name__ == "__main__":
    main()
