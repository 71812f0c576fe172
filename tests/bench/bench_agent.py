"""What a whole agent costs at 1 Hz: sensors, log, judge, encoding and the loop, on a dead-locked and on a served run::

    PYTHONPATH=src:. python tests/bench/bench_agent.py [SECONDS]

8 simulated GPUs and the 11 processes of a demo with 8 ranks; ``bench_agent_sensors.py`` has 20 processes and the NVML
driver. The share of a core is the process's own time, user and system, as getrusage counts it. Budget: 1 %.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from launchmon.demo.scenarios import demo_command, free_port
from launchmon_agent import listing, observe
from launchmon_agent.events import Event

BUDGET = 0.01
SETTLE_S = 45


async def measure(scenario: str, seconds: int, directory: Path) -> None:
    argv, env = demo_command(scenario, free_port(), speed=8)
    with (directory / f"{scenario}.log").open("wb") as log:
        server = subprocess.Popen(argv, env={**os.environ, **env}, stdout=log, stderr=log, start_new_session=True)
    try:
        await asyncio.sleep(3)
        watch = observe.foreign_run(listing.choose({"pid": server.pid}), {})
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
        share, rate = cpu / seconds, (sent - bytes_before) / seconds / 1024
        memory = after.ru_maxrss / 1024
        told = f"{scenario:8} {verdict!s:16} {share:6.2%} of a core (budget {BUDGET:.0%})"
        print(f"{told}  {rate:4.1f} KiB/s  {memory:.0f} MiB")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as directory:
        for scenario in ("healthy", "seed"):
            asyncio.run(measure(scenario, seconds, Path(directory)))


if __name__ == "__main__":
    main()
