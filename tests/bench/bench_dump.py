"""How long a dump of eight ranks takes, and for how long each rank stands still. Run it by hand::

PYTHONPATH=src:. python tests/bench/bench_dump.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from launchmon_agent.stacks.dump import Dumper
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


def main() -> None:
    for label, native in (("plain", False), ("native", True)):
        with tempfile.TemporaryDirectory() as folder, ranks(Path(folder)) as made:
            for number in range(RANKS):
                made.start(f"TP{number}", RANK)
            time.sleep(1)
            quiet = max(longest_pause(Path(folder), who) for who in made.children)
            dumper = Dumper(RUN, made.processes)
            took = sorted(dumper.dump(native=native).seconds or 0.0 for _ in range(5))
            pause = max(longest_pause(Path(folder), who) for who in made.children)
        slowest = 1000 * took[-1]
        print(f"{RANKS} ranks × {THREADS} threads × {DEPTH} frames, {label}")
        print(f"  a dump                     {1000 * took[2]:5.0f} ms, the slowest of five {slowest:.0f} (budget 500)")
        print(f"  longest pause of a rank    {1000 * pause:5.0f} ms, without any dump {1000 * quiet:.0f} (budget 50)")


if __name__ == "__main__":
    main()
