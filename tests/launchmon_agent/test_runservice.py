"""What a client asks before anything is known of the run's processes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from launchmon_agent import watch as watching
from launchmon_agent.actions import Actions
from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpus, Processes, Stacks
from launchmon_agent.runs.kill import Killer, KillPlan, KillResult
from launchmon_agent.runservice import OF_PROCESSES, RunService
from launchmon_agent.sources import Sensors
from launchmon_agent.watch import Watch
from launchmon_agent.wire import Request
from tests.launchmon_agent.test_watch import RUN, Processes_, sensors


class Slow(Processes_):
    """The first look at the processes lasts until it is told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def sample(self, now: float, gpus: Gpus | None) -> Processes:
        self.begun.set()
        self.go_on.wait(60)
        return super().sample(now, gpus)


class Dumps:
    def dump(self, native: bool = False, locals_of: str | None = None, automatic: bool = False) -> Stacks:
        return Stacks(1.0, id="d1")


def service(parts: Sensors) -> tuple[RunService, list[bool]]:
    """With what each kill and plan knew: whether there was a sample."""
    parts.stacks = lambda _run, _processes: Dumps()
    watch, knew = Watch(RUN, parts, None), list[bool]()

    class Knowing:
        def plan(self) -> KillPlan:
            knew.append(watch.model.processes is not None)
            return KillPlan((), None, None, 1.0)

        def run(self, _report: Any, force: bool = False) -> KillResult:
            knew.append(watch.model.processes is not None)
            return KillResult((), (), (), True, 0.1)

    return RunService(watch, lambda: cast(Killer, Knowing()), Actions()), knew


@pytest.mark.parametrize("do", sorted(OF_PROCESSES))
async def test_a_question_about_the_processes_waits_for_the_first_look_at_them(do: str) -> None:
    parts, slow = sensors(), Slow()
    parts.processes = slow
    asked, knew = service(parts)
    running = asyncio.create_task(asked.watch.run())
    await asyncio.to_thread(slow.begun.wait)
    answer = asyncio.create_task(asked.handle(Request(1, do, {})))
    early, _ = await asyncio.wait({answer}, timeout=0.2)
    assert not early and knew == [] and asked.watch.model.processes is None
    slow.go_on.set()
    found = await answer
    assert found == "d1" if do == "dump" else knew == [True]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_look_that_does_not_come_back_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "FIRST_S", 0.01)
    asked, _ = service(sensors())
    with pytest.raises(Refused, match="no stacks"):
        await asked.handle(Request(1, "dump", {}))
