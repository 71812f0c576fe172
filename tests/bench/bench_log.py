"""The log engine on a log of more than ten million lines: index against ``wc -l``, windows, live growth, memory.

``python -m tests.bench --only log``; it writes 1.6 GB of temporary files.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median

from launchmon_agent.log.engine import LogEngine
from launchmon_agent.log.index import LineIndex
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.log.owner import owner_of
from launchmon_agent.log.source import LogFile
from launchmon_agent.log.sources import FileSource
from tests.bench.result import Result, run

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
MANY = 10_000_000
"""Lines."""


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


def live(engine: LogEngine, path: str) -> Iterator[Result]:
    """100,000 lines a second are appended and polled for in turn, ten times a second as the agent does."""
    polls, windows = [], []
    began = time.perf_counter()
    for turn in range(LIVE_S * 10):
        append(path, BLOCK)
        burnt = time.process_time()
        engine.poll(time.time())
        polls.append(time.process_time() - burnt)
        windows.append(timed(lambda: engine.window("end", 50)))
        time.sleep(max(0.0, began + (turn + 1) / 10 - time.perf_counter()))
    took = time.perf_counter() - began
    while engine.behind:
        engine.poll(time.time())
    yield Result("log, growing by 100,000 lines/s: following it", 100 * sum(polls) / took, "% of a core")
    yield Result("log, growing by 100,000 lines/s: a window", 1000 * median(windows), "ms")
    missed = os.stat(path).st_size - engine.window("end", 1).size
    yield Result("log, growing by 100,000 lines/s: not seen", missed, "bytes", 0)


def results(quick: bool) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-log-") as directory:
        path = os.path.join(directory, "server.log")
        append(path, READY)
        for _ in range((MANY // 10 if quick else MANY) // LINES):
            append(path, BLOCK)
        size = os.stat(path).st_size
        what = f"log of {size / 1e9:.1f} GB"

        def wc() -> object:
            return subprocess.run(["wc", "-l", path], stdout=subprocess.DEVNULL, check=True)

        wc()  # into the page cache
        pairs = [(timed(wc), timed(lambda: build_index(path))) for _ in range(5)]
        speed = size / 1e9 / median(ours for _, ours in pairs)
        ratio = median(of_wc / ours for of_wc, ours in pairs)
        yield Result(f"{what}: index", speed, "GB/s", ratio=ratio, against="wc -l")
        yield Result(f"{what}: index, of the speed of wc -l", 100 * ratio, "%", 50, at_least=True)
        began = time.perf_counter()
        engine = LogEngine(FileSource(path), MarkScanner(), owner_of)
        engine.window("end", 60)
        yield Result(f"{what}: first window after attaching", 1000 * (time.perf_counter() - began), "ms", 1000)
        longest = 0.0
        while engine.behind:
            longest = max(longest, timed(lambda: engine.poll(time.time())))
        yield Result(f"{what}: all marks and lines known", time.perf_counter() - began, "s")
        yield Result(f"{what}: longest slice of work until then", 1000 * longest, "ms")
        around = timed(lambda: engine.window(size // 2, 60, 60))
        of_rank = timed(lambda: engine.window(size // 2 + 10_000_000, 0, 60, rank="TP3"))
        yield Result(f"{what}: a window in its middle", 1000 * around, "ms")
        yield Result(f"{what}: the same of one rank", 1000 * of_rank, "ms")
        start = 0
        searching = time.perf_counter()
        while (found := engine.search("there is no such text", start)).next is not None:
            start = found.next
        yield Result(f"{what}: search", size / 1e9 / (time.perf_counter() - searching), "GB/s")
        yield from live(engine, path)
        lines = engine.window("end", 1).lines[0].number or 0
        engine.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Result(f"log engine after {lines / 1e6:.1f} million lines: memory, at most", memory, "MiB", 40)


if __name__ == "__main__":
    run(results)
