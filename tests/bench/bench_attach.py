"""From a request to a live picture, on a simulated server. ``python -m tests.bench --only attach``"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from launchmon.demo.scenarios import demo_command
from tests.bench.result import Result, run
from tests.support.client import agent, eventually, verdict
from tests.support.ports import free_port

BUDGET_S = 1.5


async def attached(pid: int) -> tuple[float, float, float]:
    """Seconds until the agent answers, until the ranks are shown, and until there is a verdict."""
    began = time.perf_counter()
    async with agent() as session:
        answered = time.perf_counter() - began
        await session.attach(pid=pid)
        await eventually(lambda: any(row.state for row in session.model.rank_rows()))
        ranks = time.perf_counter() - began
        await eventually(lambda: verdict(session) is not None)
        return answered, ranks, time.perf_counter() - began


def results(quick: bool) -> Iterator[Result]:
    argv, env = demo_command("seed", free_port(), speed=8)
    with tempfile.TemporaryDirectory() as directory, (Path(directory) / "log").open("wb") as log:
        server = subprocess.Popen(argv, env={**os.environ, **env}, stdout=log, stderr=log, start_new_session=True)
        try:
            time.sleep(15)
            took = [asyncio.run(attached(server.pid)) for _ in range(3 if quick else 7)]
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    answered, ranks, judged = (median(column) for column in zip(*took, strict=True))
    yield Result("attach, this machine: the agent answers", 1000 * answered, "ms")
    yield Result("attach, this machine: 8 ranks are shown", 1000 * ranks, "ms", 1000 * BUDGET_S)
    yield Result("attach, this machine: a verdict is shown", 1000 * judged, "ms")


if __name__ == "__main__":
    run(results)
