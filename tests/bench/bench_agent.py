"""What a whole agent costs at 1 Hz: sensors, log, judge, encoding and the loop, on a dead-locked and on a served run.

``python -m tests.bench --only agent``:
8 simulated GPUs and the 11 processes of a demo with 8 ranks; ``bench_agent_sensors.py`` has 20 processes and the NVML
driver. The share of a core is the process's own time, user and system, as getrusage counts it. Budget: 1 %.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from launchmon.demo.scenarios import demo_command
from launchmon_agent import listing, observe
from launchmon_agent.discover import Found
from launchmon_agent.events import Event
from tests.bench.result import Result, run
from tests.support.ports import free_port

BUDGET = 1.0
"""Per cent of a core."""

MEMORY_MIB = 40.0
SETTLE_S = 45


async def measure(scenario: str, seconds: int, directory: Path) -> list[Result]:
    argv, env = demo_command(scenario, free_port(), speed=8)
    with (directory / f"{scenario}.log").open("wb") as log:
        server = subprocess.Popen(argv, env={**os.environ, **env}, stdout=log, stderr=log, start_new_session=True)
    try:
        await asyncio.sleep(3)
        found = listing.choose({"pid": server.pid})
        assert isinstance(found, Found)
        watch = observe.foreign_run(found, {})
        sent = 0

        def listen(_event: Event, line: bytes) -> None:
            nonlocal sent
            sent += len(line)

        watch.listen(listen)
        running = asyncio.create_task(watch.run())
        await asyncio.sleep(SETTLE_S)
        before, bytes_before = resource.getrusage(resource.RUSAGE_SELF), sent
        await asyncio.sleep(seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        verdict = watch.model.verdict.verdict if watch.model.verdict else None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        what = f"whole agent, demo {scenario} ({verdict})"
        return [
            Result(f"{what}: CPU", 100 * cpu / seconds, "% of a core", BUDGET),
            Result(f"{what}: events, before compression", (sent - bytes_before) / seconds / 1024, "KiB/s"),
            Result(f"{what}: memory, at most", after.ru_maxrss / 1024, "MiB", MEMORY_MIB),
        ]
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def results(quick: bool) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as directory:
        for scenario in ("healthy", "seed"):
            yield from asyncio.run(measure(scenario, 5 if quick else 20, Path(directory)))


if __name__ == "__main__":
    run(results)
