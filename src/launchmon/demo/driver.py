"""The process that reports the simulated GPUs, as a driver would: ``python -m launchmon.demo.driver``.

It has a session of its own and no tie to the launcher but a pidfd. So it outlives the server, like real GPUs: memory
comes back only when the process that holds it is gone, and somebody is there to say so even when the launcher got a
SIGKILL. A moment after the last process has left the GPUs it removes all files of the demo and ends.

The report is one JSON file, replaced as a whole once a second at speed 1: ``{"gpus": [{...}]}`` with the field names
and units of ``launchmon_agent.events.Gpu``.
"""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import sys
import time
from typing import Any

from launchmon.demo.gpus import DIRECTORY_PREFIX, GB, Slots
from launchmon.demo.scenarios import GpuModel, scenario

INTERVAL_S = 1.0
SHORTEST_INTERVAL_S = 0.1

LINGER_S = 3.0
"""How long the idle GPUs stay visible after the last process has gone."""

OWN_USE = 3 << 20
"""Bytes that a GPU shows as used when no process is on it."""

HEAT_S = 6.0
"""Time constant with which the temperature follows the load."""


class Board:
    """All GPUs, as NVML would describe them."""

    def __init__(self, slots: Slots, model: GpuModel) -> None:
        self._slots = slots
        self._model = model
        self._heat = [0.0] * slots.count  # 0…1

    def sample(self, seconds: float) -> list[dict[str, Any]]:
        """The GPUs now, ``seconds`` after the sample before."""
        return [self._gpu(index, seconds) for index in range(self._slots.count)]

    def in_use(self) -> bool:
        """Whether any process still holds a GPU."""
        return any(alive(self._slots.read(index)[0]) for index in range(self._slots.count))

    def _gpu(self, index: int, seconds: float) -> dict[str, Any]:
        model = self._model
        pid, memory, activity, memory_activity = self._slots.read(index)
        held = alive(pid)
        if not held:
            memory, activity, memory_activity = 0, 0.0, 0.0
        self._heat[index] += (activity - self._heat[index]) * (1 - math.exp(-seconds / HEAT_S))
        # No two boards draw the same power: each has a fixed offset of a few watts.
        power = model.idle_w + index % 4 + activity * (0.93 * model.power_limit_w - model.idle_w)
        return {
            "index": index,
            "uuid": f"GPU-de300000-0000-4000-8000-{index:012x}",
            "name": model.name,
            "pci": f"00000000:{0x11 + 0x10 * index:02X}:00.0",
            "memory_used": OWN_USE + memory,
            "memory_total": int(model.memory_gb * GB),
            "util_percent": float(round(100 * activity)),
            "memory_util_percent": float(round(100 * memory_activity)),
            "power_w": round(power, 1),
            "power_limit_w": model.power_limit_w,
            "temperature_c": float(round(model.idle_c + self._heat[index] * (model.hot_c - model.idle_c))),
            "sm_clock_mhz": model.busy_mhz if activity else model.idle_mhz,
            "processes": [{"pid": pid, "memory": memory}] if held else [],
        }


class Report:
    """The JSON file. It belongs to whoever wrote it last, so that a relaunch with the same path takes it over."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written: tuple[int, int] | None = None

    def write(self, gpus: list[dict[str, Any]]) -> None:
        """Replace the file as a whole, making its directory (private) where that is missing."""
        try:
            self._write(gpus)
        except FileNotFoundError:  # the driver before has just removed the directory
            self._write(gpus)

    def _write(self, gpus: list[dict[str, Any]]) -> None:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        draft = f"{self._path}.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump({"gpus": gpus}, file)
            file.flush()
            self._written = _identity(os.fstat(descriptor))
        os.replace(draft, self._path)

    def taken_over(self) -> bool:
        """Whether another driver has written the file since."""
        try:
            return _identity(os.stat(self._path)) != self._written
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """With its directory, where that is one of the demo's and empty."""
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        parent = os.path.dirname(self._path)
        if os.path.basename(parent).startswith(DIRECTORY_PREFIX):
            try:
                os.rmdir(parent)
            except OSError:
                pass  # gone already, or something else lives there


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns


def alive(pid: int) -> bool:
    """Whether the process runs. A zombie holds no GPU."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def watch(board: Board, report: Report, launcher: int, interval_s: float) -> None:
    """Report until the launcher (a pidfd) and every process on a GPU have gone, and :data:`LINGER_S` more.

    Or until another driver reports. While the launcher lives that is the one before, with its last report.
    """
    poll = select.poll()
    poll.register(launcher, select.POLLIN)
    last = time.monotonic()
    linger = LINGER_S
    gone = False
    while linger > 0 and not (gone and report.taken_over()):
        now = time.monotonic()
        report.write(board.sample(now - last))
        if gone and not board.in_use():
            linger -= now - last
        last = now
        if gone:
            time.sleep(min(interval_s, LINGER_S / 8))
        else:
            gone = bool(poll.poll(interval_s * 1000))


def main(argv: list[str]) -> int:
    """``driver LAUNCHER-PID RUN-DIRECTORY REPORT SCENARIO SPEED``. Returns to its caller once the GPUs can be seen."""
    pid, directory, path, name, speed = argv
    row = scenario(name)
    launcher = os.pidfd_open(int(pid))
    board = Board(Slots(directory, row.gpus), row.gpu)
    report = Report(os.path.abspath(path))
    report.write(board.sample(0.0))
    if os.fork():
        return 0
    os.setsid()
    os.chdir("/")
    try:
        watch(board, report, launcher, max(SHORTEST_INTERVAL_S, INTERVAL_S / float(speed)))
    finally:
        if not report.taken_over():
            report.remove()
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
