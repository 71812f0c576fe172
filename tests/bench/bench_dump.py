"""How long a dump of eight ranks takes, and for how long each rank stands still.

``python -m tests.bench --only dump``"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from launchmon_agent.stacks.dump import Dumper
from tests.bench.result import Result, run
from tests.support.ranks import RUN, ranks

RANKS, THREADS, DEPTH = 8, 40, 40
RANK = f"""
import threading, time
def descend(depth):
    if depth:
        descend(depth - 1)
    else:
        time.sleep(600)
for _ in range({THREADS}):
    threading.Thread(target=descend, args=({DEPTH},), daemon=True).start()
def measure():
    longest, last = 0.0, time.perf_counter()
    with open(sys.argv[1] + ".pause", "w") as out:
        while True:
            time.sleep(0.001)
            now = time.perf_counter()
            if now - last > longest:
                longest = now - last
                out.seek(0)
                out.write(f"{{longest:.6f}}\\n")
                out.flush()
            last = now
threading.Thread(target=measure, daemon=True).start()
there()
time.sleep(600)
"""


def longest_pause(workdir: Path, who: str) -> float:
    return float((workdir / f"{who}.there.pause").read_text().split()[0])


def results(quick: bool) -> Iterator[Result]:
    for label, native in (("plain", False), ("native", True)):
        with tempfile.TemporaryDirectory() as folder, ranks(Path(folder)) as made:
            for number in range(RANKS):
                made.start(f"TP{number}", RANK)
            time.sleep(1)
            quiet = max(longest_pause(Path(folder), who) for who in made.children)
            dumper = Dumper(RUN, made.processes)
            took = sorted(dumper.dump(native=native).seconds or 0.0 for _ in range(3 if quick else 5))
            pause = max(longest_pause(Path(folder), who) for who in made.children)
        what = f"dump, {label}, {RANKS} ranks × {THREADS} threads × {DEPTH} frames"
        yield Result(f"{what}: median", 1000 * took[len(took) // 2], "ms", None if native else 500)
        yield Result(f"{what}: slowest", 1000 * took[-1], "ms")
        within = None if native else 50
        yield Result(
            f"{what}: longest pause of a rank", 1000 * pause, "ms", within, ratio=pause / quiet, against="no dump"
        )


if __name__ == "__main__":
    run(results)
