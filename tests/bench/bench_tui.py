"""What the TUI costs: share of a core, and bytes a second to the terminal. ``python -m tests.bench --only tui``

The real app runs in a pseudo-terminal on a session without an agent: ranks and GPUs whose values move every second. The
cost of making up those values is measured alone and taken off.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psutil

from tests.bench.result import Result, run
from tests.support import fake_session
from tests.support.fake_session import FakeSession

WARM_UP_S = 4.0
SIZE = (45, 150)  # rows, columns: a usual tmux pane
LINES_A_SECOND = 1000
BATCHES_A_SECOND = 20
MEMORY_MIB = 80.0
PAGE_UP = b"\x1b[5~"
KEYS_A_SECOND = 5


@dataclass(frozen=True)
class Situation:
    name: str
    cpu_percent: float | None = None  # budget
    kib_a_second: float | None = None  # budget, where nothing scrolls
    moves: bool = True  # values change each second
    ranks: int = 8
    lines_a_second: int = 0
    keys: bytes = b""  # pressed KEYS_A_SECOND times a second


SITUATIONS = {
    "still": Situation("nothing changes", 2.0, 20.0, moves=False),
    "quiet": Situation("8 ranks at 1 Hz, a quiet log", 2.0, 20.0),
    "many": Situation("64 ranks at 1 Hz, a quiet log", None, 20.0, ranks=64),
    "log": Situation(f"8 ranks at 1 Hz, {LINES_A_SECOND:,} lines/s", 6.0, lines_a_second=LINES_A_SECOND),
    "paging": Situation("paging up through the log", keys=PAGE_UP),
}


@dataclass(frozen=True)
class Cost:
    cpu_percent: float
    kib_a_second: float
    rss_mib: float


async def live(session: FakeSession, situation: Situation) -> None:
    """Values that move as on a real machine."""
    session.since_event = None
    if not situation.moves:
        return
    began, first, tick = time.monotonic(), session.model.now, 0
    batch = situation.lines_a_second // BATCHES_A_SECOND
    while True:
        await asyncio.sleep(1 / BATCHES_A_SECOND)
        tick += 1
        model = session.model
        model.now = first + time.monotonic() - began
        for number in range(batch):
            session.text.write(
                f"[2025-11-29 18:00:41 TP{number % 8}] Decode batch {tick}. #running-req: {number}, gen: 812.5"
            )
        if batch:
            session.sync_log(grown_at=model.now)
        if tick % BATCHES_A_SECOND == 0:
            second = tick // BATCHES_A_SECOND
            assert model.gpus is not None
            gpus = tuple(replace(gpu, power_w=80.0 + (second + gpu.index) % 9) for gpu in model.gpus.gpus)
            model.gpus = replace(model.gpus, gpus=gpus)
            model.rows = [
                replace(row, tree_cpu_percent=(second + place) % 7 / 10) for place, row in enumerate(model.rows)
            ]
            for history in model.history.values():
                history[:] = [*history[1:], float(second % 5)]
        session.changed()


def app(situation: Situation) -> None:
    from launchmon.config import Config, Effective
    from launchmon.connect import Asker
    from launchmon.tui.app import run_app

    playing = []

    async def open_session(_: Asker) -> FakeSession:
        session = fake_session.seed(situation.ranks)
        playing.append(asyncio.create_task(live(session, situation)))
        return session

    run_app(open_session, settings=Effective(Config(theme="launchmon-dark")))


def source_alone(situation: Situation) -> None:
    async def forever() -> None:
        await live(fake_session.seed(situation.ranks), situation)
        await asyncio.Event().wait()

    asyncio.run(forever())


def measure(what: str, situation: str, seconds: float) -> Cost:
    """Run this file's ``what`` in a pseudo-terminal and watch it from outside."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "tests.bench.bench_tui", what, situation]
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    try:
        drain(master, WARM_UP_S)
        process = psutil.Process(child.pid)
        before, began = sum(process.cpu_times()[:2]), time.monotonic()
        count = drain(master, seconds, SITUATIONS[situation].keys if what == "app" else b"")
        elapsed = time.monotonic() - began
        used = sum(process.cpu_times()[:2]) - before
        return Cost(100 * used / elapsed, count / elapsed / 1024, process.memory_info().rss / 1024**2)
    finally:
        child.kill()
        child.wait()
        os.close(master)


def drain(master: int, seconds: float, keys: bytes = b"") -> int:
    """Read what comes for so long, pressing keys meanwhile; returns how many bytes came."""
    now = time.monotonic()
    count, end, press = 0, now + seconds, now
    while (now := time.monotonic()) < end:
        if keys and now >= press:
            os.write(master, keys)
            press += 1 / KEYS_A_SECOND
        until = min(end, press) if keys else end
        if select.select([master], [], [], max(0.0, until - now))[0]:
            try:
                count += len(os.read(master, 1 << 16))
            except OSError:
                break
    return count


def results(quick: bool) -> Iterator[Result]:
    seconds = 5.0 if quick else 15.0
    for key, situation in SITUATIONS.items():
        source = measure("source", key, seconds / 2)
        cost = measure("app", key, seconds)
        share = max(0.0, cost.cpu_percent - source.cpu_percent)
        yield Result(f"TUI, {situation.name}: CPU", share, "% of a core", situation.cpu_percent)
        yield Result(f"TUI, {situation.name}: to the terminal", cost.kib_a_second, "KiB/s", situation.kib_a_second)
        yield Result(f"TUI, {situation.name}: memory", cost.rss_mib, "MiB", MEMORY_MIB)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("app", "source"):
        {"app": app, "source": source_alone}[sys.argv[1]](SITUATIONS[sys.argv[2]])
    else:
        run(results)
