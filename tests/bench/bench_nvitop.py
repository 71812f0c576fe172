"""The agent's GPU and process sensors beside nvitop, on the same fake driver. ``python -m tests.bench --only nvitop``

nvitop is not a dependency: LAUNCHMON_BENCH_NVITOP names the Python of an environment that has it, as ``python -m venv``
and ``pip install nvitop`` make one. Both look once a second at 8 GPUs and the processes on them, and both costs are
those of the whole process as the kernel counts it: nvitop draws its screen into a pseudo-terminal, the agent judges.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence

import psutil

from launchmon_agent import listing, observe
from launchmon_agent.discover import Found
from launchmon_agent.sensors import proc
from tests.bench.bench_agent_sensors import RANKS, start_server
from tests.bench.result import Result, run
from tests.support.fake_nvml import FakeNvml

VARIABLE = "LAUNCHMON_BENCH_NVITOP"
SETTLE_S = 5.0


def share(command: Sequence[str], env: dict[str, str], seconds: float) -> tuple[float, float]:
    """Per cent of a core and MiB of a program that runs in a pseudo-terminal."""
    master, slave = pty.openpty()
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    try:
        time.sleep(SETTLE_S)
        process = psutil.Process(child.pid)
        before, began = sum(process.cpu_times()[:2]), time.monotonic()
        time.sleep(seconds)
        used = sum(process.cpu_times()[:2]) - before
        return 100 * used / (time.monotonic() - began), process.memory_info().rss / 2**20
    finally:
        child.kill()
        child.wait()
        os.close(master)


def drain(master: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(master, 1 << 16):
            pass


def watch(pid: int, log: str) -> None:
    """The agent alone, in this process, until it is killed. ``log``: else it would follow what this bench prints."""
    found = listing.choose({"pid": pid})
    assert isinstance(found, Found)
    asyncio.run(observe.foreign_run(found, {"log": log}).run())


def results(quick: bool) -> Iterator[Result]:
    python = os.environ.get(VARIABLE)
    if python is None:
        raise SystemExit(f"nvitop is not installed here: {VARIABLE} is not set to a Python that has it")
    seconds = 5.0 if quick else 20.0
    with tempfile.TemporaryDirectory() as directory:
        fake = FakeNvml(pathlib.Path(directory))
        server = start_server()
        try:
            ranks = [row.pid for row in proc.children(server.pid) if row.comm.startswith("sglang::")]
            fake.script(*(f"gpu {index % RANKS} process {pid} {70 << 30}" for index, pid in enumerate(ranks)))
            env = {**fake.environment(), "TERM": "xterm-256color", "LINES": "50", "COLUMNS": "150"}
            log = pathlib.Path(directory, "server.log")
            log.touch()
            agent = [sys.executable, "-m", "tests.bench.bench_nvitop", str(server.pid), str(log)]
            ours, memory = share(agent, env, seconds)
            theirs, other = share([python, "-m", "nvitop", "--monitor", "full", "--interval", "1"], env, seconds)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()
    yield Result(
        "agent, 8 GPUs of the fake driver: CPU", ours, "% of a core", 1.0, ratio=ours / theirs, against="nvitop"
    )
    yield Result("agent, 8 GPUs of the fake driver: memory", memory, "MiB", 40, ratio=memory / other, against="nvitop")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].isdecimal():
        watch(int(sys.argv[1]), sys.argv[2])
    else:
        run(results)
