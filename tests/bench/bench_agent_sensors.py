"""What the sensors cost at 1 Hz: 8 GPUs (fake driver, real nvidia-ml-py) and 20 processes, as shares of a core.

``python -m tests.bench --only agent_sensors``. The time is the process's own, user and system, as getrusage counts it.
"""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.gpu import GpuSensor
from launchmon_agent.sensors.host import HostSensor
from launchmon_agent.sensors.http import HttpSensor
from launchmon_agent.sensors.kernel import KernelSensor
from launchmon_agent.sensors.processes import ProcessSensor
from tests.bench.result import Result, run
from tests.support.fake_nvml import SCRIPT_VARIABLE, FakeNvml, load
from tests.support.sessions import session_members

BUDGET = 1.0
"""Per cent of a core."""

RANKS = 8
SERVER = pathlib.Path(__file__).parents[1] / "support" / "server.py"


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def start_server() -> subprocess.Popen[str]:
    """Launcher, resource tracker, 8 ranks, detokenizer and 9 compilers: 20 processes."""
    ranks = [f"sglang::scheduler_TP{rank}/sh:exec sleep 3600" for rank in range(RANKS)]
    command = [sys.executable, str(SERVER), *ranks, "sglang::detokenizer/sh:exec sleep 3600"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdin is not None and server.stdout is not None
    server.stdout.readline()
    server.stdin.write("title\n")
    server.stdin.flush()
    while len(session_members(server.pid)) < 20:
        time.sleep(0.1)
    return server


def measure(server: subprocess.Popen[str], seconds: int) -> dict[str, float]:
    """CPU seconds a sample, by sensor. The first few samples, which learn, are left out."""
    processes = ProcessSensor(server.pid, proc.start_time(server.pid), session=server.pid)
    processes.expect([f"TP{rank}" for rank in range(RANKS)])
    gpu, host, kernel = GpuSensor(), HostSensor({"model": "/tmp", "shm": "/dev/shm"}), KernelSensor()
    http = HttpSensor(server.pid, 30000, "127.0.0.1", "0.5.23", None, lambda pid: True)
    pids = [row.pid for row in session_members(server.pid)]
    gpus = gpu.sample(time.time())
    parts: dict[str, Callable[[float], object]] = {
        "gpu": gpu.sample,
        "processes": lambda now: (processes.sample(now, gpus), processes.vanished(now)),
        "host": host.sample,
        "http": http.sample,
        "kernel": lambda now: kernel.poll(now, pids),
    }
    spent = dict.fromkeys(parts, 0.0)
    for second in range(-3, seconds):
        began = time.monotonic()
        for name, sample in parts.items():
            before = cpu_seconds()
            sample(time.time())
            if second >= 0:
                spent[name] += cpu_seconds() - before
        time.sleep(max(0.0, 1 - (time.monotonic() - began)))
    return {name: total / seconds for name, total in spent.items()}


def results(quick: bool) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as directory:
        fake = FakeNvml(pathlib.Path(directory))
        load()
        os.environ[SCRIPT_VARIABLE] = str(fake.path)
        server = start_server()
        try:
            ranks = [row.pid for row in proc.children(server.pid) if row.comm.startswith("sglang::")]
            fake.script(*(f"gpu {index % RANKS} process {pid} {70 << 30}" for index, pid in enumerate(ranks)))
            costs = measure(server, 5 if quick else 20)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()
    for name, cost in costs.items():
        yield Result(f"sensor {name}: a sample", 1000 * cost, "ms")
    yield Result("all sensors at 1 Hz, 8 GPUs, 20 processes", 100 * sum(costs.values()), "% of a core", BUDGET)


if __name__ == "__main__":
    run(results)
