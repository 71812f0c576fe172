"""The log engine on a large log: index against ``wc -l``, windows, live growth, memory. All measured in one run.

python tests/bench/bench_log.py [GIGABYTES]     2 by default, in a temporary file
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from launchmon_agent.events import Log
from launchmon_agent.log.engine import LogEngine
from launchmon_agent.log.index import LineIndex
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.log.owner import owner_of
from launchmon_agent.log.source import LogFile
from launchmon_agent.log.sources import FileSource

LINE = (
    b"[2026-01-01 00:00:%02d TP%d] Decode batch, #running-req: %d, #token: 12345, token usage: 0.12, "
    b"gen throughput (token/s): 123.45, #queue-req: 0\n"
)
READY = (
    b"[2026-01-01 00:00:00] server_args={'model_path': '/models/m', 'tp_size': 8}\n"
    b"[2026-01-01 00:00:00] The server is fired up and ready to roll!\n"
)
LINES = 10_000
BLOCK = b"".join(LINE % (number % 60, number % 8, number) for number in range(LINES))
LIVE_S = 5


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def build_index(path: str) -> None:
    index = LineIndex.fastest(LogFile(path).content)
    while index.step(64 << 20):
        pass


def append(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def live(engine: LogEngine, path: str) -> None:
    """100,000 lines a second are appended and polled for in turn, ten times a second as the agent does."""
    polls, windows, written = [], [], 0
    began = time.perf_counter()
    for turn in range(LIVE_S * 10):
        append(path, BLOCK)
        written += len(BLOCK)
        polls.append(timed(lambda: engine.poll(time.time())))
        windows.append(timed(lambda: engine.window("end", 50)))
        time.sleep(max(0.0, began + (turn + 1) / 10 - time.perf_counter()))
    took = time.perf_counter() - began
    size = engine.window("end", 1).size
    print(f"live       {written / took / 1e6:.1f} MB/s for {took:.0f} s: polls take {sum(polls) / took:.1%} of a core,")
    missed = os.stat(path).st_size - size
    print(
        f"           longest {max(polls) * 1e3:.0f} ms; window {median(windows) * 1e3:.1f} ms; {missed} bytes not seen"
    )


def main() -> None:
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory(prefix="bench-log-") as directory:
        path = os.path.join(directory, "server.log")
        append(path, READY)
        while os.stat(path).st_size < gigabytes * 1e9:
            append(path, BLOCK)
        size = os.stat(path).st_size
        print(f"log        {size / 1e9:.2f} GB")

        def wc() -> object:
            return subprocess.run(["wc", "-l", path], stdout=subprocess.DEVNULL, check=True)

        wc()  # into the page cache
        pairs = [(timed(wc), timed(lambda: build_index(path))) for _ in range(5)]
        print(
            f"index      {median(of_wc / ours for of_wc, ours in pairs):.2f} of the speed of wc -l (budget 0.5)", end=""
        )
        print(f"   wc -l {median(pair[0] for pair in pairs):.2f} s, index {median(pair[1] for pair in pairs):.2f} s")

        began = time.perf_counter()
        engine = LogEngine(FileSource(path), MarkScanner(), owner_of)
        engine.window("end", 60)
        print(f"attach     first screen after {(time.perf_counter() - began) * 1e3:.0f} ms (budget 1000)")
        longest, state = 0.0, None
        while engine.behind:
            polled = time.perf_counter()
            for event in engine.poll(time.time()):
                state = event if isinstance(event, Log) else state
            longest = max(longest, time.perf_counter() - polled)
        took = time.perf_counter() - began
        print(f"catch up   {took:.1f} s for marks and index, longest poll {longest * 1e3:.0f} ms")

        for name, where in (("middle", size // 2), ("near", size // 2 + 100_000), ("end", size - 5000)):
            around = timed(lambda where=where: engine.window(where, 60, 60))
            of_rank = timed(lambda where=where: engine.window(where, 0, 60, "TP3"))
            print(f"window     {name}: {around * 1e3:.1f} ms, of one rank {of_rank * 1e3:.1f} ms")
        slices, start = 0, 0
        searching = time.perf_counter()
        while (found := engine.search("there is no such text", start)).next is not None:
            slices, start = slices + 1, found.next
        print(f"search     {size / 1e9 / (time.perf_counter() - searching):.2f} GB/s in {slices + 1} slices")
        live(engine, path)
        engine.close()
        print(f"memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most (budget 40)")


if __name__ == "__main__":
    main()
