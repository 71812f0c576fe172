"""Making way for another attempt: what cannot be ended, or does not give its memory back, is named and refused."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, cast

import pytest

from launchmon_agent import runservice
from launchmon_agent.actions import Actions
from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpu, GpuProcess, Gpus, Process, Processes, Run
from launchmon_agent.runs.kill import Killer, KillResult
from launchmon_agent.runservice import RunService
from launchmon_agent.watch import Watch
from launchmon_agent.wire import Request

GIB = 1 << 30
RANK = 999_999_1


class Ended:
    """A kill that has this result."""

    def __init__(self, *leftovers: str) -> None:
        self.done = False
        self.result = KillResult((), leftovers, (), not leftovers, 0.1)

    def run(self, _report: Any, force: bool = False) -> KillResult:
        self.done = True
        return self.result


def service(killer: Ended) -> RunService:
    watch = Watch(Run(100.0, id="r", pid=RANK, start_time=100.0, launched=True), None, None)
    watch.emit(Processes(200.0, (Process(RANK, 100.0, "scheduler", rank="TP0", state="D"),)))
    watch.emit(gpus(200.0, 60 * GIB, GpuProcess(RANK, 59 * GIB)))
    return RunService(watch, lambda: cast(Killer, killer), Actions())


def gpus(at: float, used: int, *processes: GpuProcess) -> Gpus:
    return Gpus(at, gpus=(Gpu(0, memory_used=used, processes=processes),))


async def test_a_rank_in_an_uninterruptible_wait_is_named_and_nothing_may_start() -> None:
    left = f"process {RANK} (TP0) is in an uninterruptible wait (D) in nvidia_close, and ends when that does"
    with pytest.raises(Refused, match=r"TP0\) is in an uninterruptible wait") as caught:
        await service(Ended(left)).handle(Request(0, "clear", {"port": None}))
    assert "nothing was started" in caught.value.cause


async def test_memory_that_stays_away_is_refused_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runservice, "BACK_S", 0.5)
    killer = Ended()
    asked = service(killer)
    clearing = asyncio.create_task(asked.handle(Request(0, "clear", {"port": None})))
    while not clearing.done():
        if killer.done:
            asked.watch.emit(gpus(time.time(), 41 * GIB, GpuProcess(os.getpid(), 40 * GIB)))
        await asyncio.sleep(0)
    with pytest.raises(Refused, match=rf"GPU 0: 40\.0 GiB more than before, by process {os.getpid()}"):
        await clearing


async def test_memory_that_comes_back_late_is_waited_for() -> None:
    killer = Ended()
    asked = service(killer)
    clearing = asyncio.create_task(asked.handle(Request(0, "clear", {"port": None})))
    late = [30 * GIB, 30 * GIB, GIB]
    while not clearing.done():
        if killer.done:
            asked.watch.emit(gpus(time.time(), late.pop(0) if len(late) > 1 else late[0]))
        await asyncio.sleep(0)
    assert (await clearing).leftovers == ()
