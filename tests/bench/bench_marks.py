"""How fast a log is searched for marks, beside ``wc -l`` and ``grep -E`` on the same file.

``python -m tests.bench --only marks``"""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator

from launchmon_agent.log.marks import MarkScanner
from tests.bench.result import Result, run

BLOCK = 1 << 20
LAUNCH = pathlib.Path(__file__).parent.parent / "recordings/logs/tp2-healthy.log"
DECODE = (
    b"[2026-11-29 16:10:%02d TP0] Decode batch, #running-req: %d, #token: %d, token usage: 0.42, cuda graph: True, "
    b"gen throughput (token/s): %d.56, #queue-req: 0\n"
)
ACCESS = b'[2026-11-29 16:10:%02d] INFO:     127.0.0.1:33338 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def write_log(path: pathlib.Path, size: int) -> None:
    launch = LAUNCH.read_bytes()
    launch = launch[: launch.index(b"ready to roll!\n") + len(b"ready to roll!\n")]
    serving = b"".join(
        DECODE % (n % 60, n % 64, n * 37 % 900_000, n % 5000) + (ACCESS % (n % 60) if n % 3 == 0 else b"")
        for n in range(20_000)
    )
    with path.open("wb") as out:
        out.write(launch)
        while out.tell() < size:
            out.write(serving)


def seconds_to_scan(path: pathlib.Path) -> float:
    scanner = MarkScanner()
    begin = time.perf_counter()
    offset = 0
    with path.open("rb", buffering=0) as log:
        while data := log.read(BLOCK):
            scanner.feed(offset, data)
            offset += len(data)
    scanner.last_lines()
    return time.perf_counter() - begin


def seconds_to_read_lines(data: bytes) -> float:
    """The cost of lines that are read one by one, as during a launch."""
    scanner = MarkScanner()
    begin = time.perf_counter()
    scanner.feed(0, data)
    return time.perf_counter() - begin


def seconds_to_follow(path: pathlib.Path, rate: int, seconds: int) -> float:
    """The cost of a live log that grows by ``rate`` bytes a second, looked at four times a second."""
    scanner = MarkScanner()
    chunk = rate // 4
    spent, offset = 0.0, 0
    with path.open("rb", buffering=0) as log:
        for _ in range(4 * seconds):
            data = log.read(chunk)
            begin = time.perf_counter()
            scanner.feed(offset, data, 1795968600.0)
            scanner.last_lines()
            spent += time.perf_counter() - begin
            offset += len(data)
    return spent / seconds


def seconds_of(*command: str) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.PIPE, check=False)  # grep stops at the first match into /dev/null
    return time.perf_counter() - begin


def results(quick: bool) -> Iterator[Result]:
    megabytes = 64 if quick else 512
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "server.log")
        write_log(path, megabytes << 20)
        size = path.stat().st_size / 1e6
        seconds_of("wc", "-l", str(path))  # into the page cache
        wc = seconds_of("wc", "-l", str(path))
        grep = seconds_of("grep", "-acE", "server_args=|Traceback|fired up|SIG(QUIT|TERM) received", str(path))
        scan = seconds_to_scan(path)
        follow = seconds_to_follow(path, 13_000_000, min(8, megabytes // 13))
        launch = LAUNCH.read_bytes()
        lines = launch[launch.index(b"No chat template found") : launch.index(b"INFO:     Started server")] * 500
        read = seconds_to_read_lines(lines)
    yield Result("marks, serving lines", size / scan, "MB/s", ratio=grep / scan, against="grep -E")
    yield Result("grep -E for four of them", size / grep, "MB/s", ratio=wc / grep, against="wc -l")
    yield Result("marks, lines of a launch, read one by one", len(lines) / 1e6 / read, "MB/s")
    yield Result("marks, following 13 MB/s of serving lines", 100 * follow, "% of a core")


if __name__ == "__main__":
    run(results)
