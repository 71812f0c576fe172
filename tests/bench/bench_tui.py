"""What the TUI costs: share of a core, and bytes a second to the terminal. Run it by hand::

PYTHONPATH=src:. python tests/bench/bench_tui.py [SECONDS]

The real app runs in a pseudo-terminal on a session without an agent: 8 ranks and 8 GPUs whose values move every second,
with a quiet log and with 1,000 lines a second. The cost of making up those values is measured alone and taken off.
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
from dataclasses import dataclass, replace

import psutil

from tests.support import fake_session
from tests.support.fake_session import FakeSession

WARM_UP_S = 4.0
SIZE = (45, 150)  # rows, columns: a usual tmux pane
LINES_A_SECOND = 1000
BATCHES_A_SECOND = 20
BUDGETS = {"quiet": (2.0, 20.0), "log": (6.0, None)}
"""Percent of a core, and KiB a second where nothing scrolls."""


@dataclass(frozen=True)
class Cost:
    cpu_percent: float
    kib_a_second: float
    rss_mib: float


async def live(session: FakeSession, lines_a_second: int) -> None:
    """Values that move as on a real machine."""
    session.since_event = None
    began, first, tick = time.monotonic(), session.model.now, 0
    batch = lines_a_second // BATCHES_A_SECOND
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


def app(lines_a_second: int) -> None:
    from launchmon.config import Config, Effective
    from launchmon.connect import Asker
    from launchmon.tui.app import run_app

    playing = []

    async def open_session(_: Asker) -> FakeSession:
        session = fake_session.seed()
        playing.append(asyncio.create_task(live(session, lines_a_second)))
        return session

    run_app(open_session, settings=Effective(Config(theme="launchmon-dark")))


def source_alone(lines_a_second: int) -> None:
    asyncio.run(live(fake_session.seed(), lines_a_second))


def measure(what: str, lines_a_second: int, seconds: float) -> Cost:
    """Run this file's ``what`` in a pseudo-terminal and watch it from outside."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "tests.bench.bench_tui", what, str(lines_a_second)]
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    try:
        drain(master, WARM_UP_S)
        process = psutil.Process(child.pid)
        before, began = sum(process.cpu_times()[:2]), time.monotonic()
        count = drain(master, seconds)
        elapsed = time.monotonic() - began
        used = sum(process.cpu_times()[:2]) - before
        return Cost(100 * used / elapsed, count / elapsed / 1024, process.memory_info().rss / 1024**2)
    finally:
        child.kill()
        child.wait()
        os.close(master)


def drain(master: int, seconds: float) -> int:
    """Read what comes for so long; returns how many bytes came."""
    count, end = 0, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            try:
                count += len(os.read(master, 1 << 16))
            except OSError:
                break
    return count


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0
    print(f"{'':<22}{'CPU of a core':>16}{'to the terminal':>18}{'memory':>10}   budget")
    for name, lines_a_second in (("quiet", 0), ("log", LINES_A_SECOND)):
        source = measure("source", lines_a_second, seconds / 2)
        cost = measure("app", lines_a_second, seconds)
        share = max(0.0, cost.cpu_percent - source.cpu_percent)
        most_cpu, most_kib = BUDGETS[name]
        budget = f"{most_cpu:.0f} %" + (f", {most_kib:.0f} KiB/s" if most_kib else "")
        title = "quiet, 1 Hz" if not lines_a_second else f"{lines_a_second} lines/s"
        print(f"{title:<22}{share:>14.1f} %{cost.kib_a_second:>12.1f} KiB/s{cost.rss_mib:>6.0f} MiB   {budget}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("app", "source"):
        {"app": app, "source": source_alone}[sys.argv[1]](int(sys.argv[2]))
    else:
        main()
