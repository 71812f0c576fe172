"""The watch over sensors that the test holds: one order for everyone, and no sensor's failure ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.events import (
    Event,
    Exit,
    Gpu,
    Gpus,
    Heartbeat,
    Host,
    Leftovers,
    Mark,
    Notice,
    Orphan,
    Process,
    Processes,
    Ras,
    Run,
)
from launchmon_agent.model import RunModel
from launchmon_agent.sources import Look, Sensors
from launchmon_agent.watch import Watch

RUN = Run(0.0, id="x", pid=7, start_time=1.0, tp=2)


class Source:
    """Every sensor in one: what it is asked for it counts; ``broken`` names those that raise."""

    def __init__(self, broken: frozenset[str] = frozenset()) -> None:
        self.asked: dict[str, int] = {}
        self.broken = broken
        self.expected: Sequence[str] = ()

    def _ask(self, name: str) -> None:
        self.asked[name] = self.asked.get(name, 0) + 1
        if name in self.broken:
            raise OSError(f"{name} is broken")


class Gpu_(Source):
    def sample(self, now: float) -> Gpus:
        self._ask("gpu")
        return Gpus(now, gpus=(Gpu(0, util_percent=1.0),))


class Host_(Source):
    def sample(self, now: float) -> Host:
        self._ask("host")
        return Host(now)


class Kernel_(Source):
    def poll(self, now: float, pids: Iterable[int]) -> Sequence[Event]:
        self._ask("kernel")
        return []


class Processes_(Source):
    def sample(self, now: float, gpus: Gpus | None) -> Processes:
        self._ask("processes")
        return Processes(now, (Process(7, 1.0, "launcher"),))

    def vanished(self, now: float) -> list[Exit]:
        return []

    def expect(self, ranks: Sequence[str]) -> None:
        self.expected = ranks


class Heartbeat_(Source):
    def sample(self, now: float, processes: Sequence[Process]) -> Heartbeat:
        self._ask("heartbeat")
        return Heartbeat(now)


class Ras_(Source):
    def sample(self, now: float, processes: Sequence[Process], *, outstanding: bool) -> Ras | None:
        self._ask("ras")
        return Ras(now, error="nobody answers" if outstanding else None)


def sensors(*broken: str) -> Sensors:
    bad = frozenset(broken)
    return Sensors(Gpu_(bad), Host_(bad), Kernel_(bad), Processes_(bad), heartbeat=Heartbeat_(bad), ras=Ras_(bad))


async def watched(watch: Watch, model: RunModel, until: type[Event]) -> None:
    """Run the watch until its listener has seen an event of this kind."""
    seen = asyncio.Event()

    def listen(event: Event, _line: bytes) -> None:
        model.fold(event)
        if isinstance(event, until):
            seen.set()

    watch.listen(listen)
    running = asyncio.create_task(watch.run())
    await asyncio.wait_for(seen.wait(), 20)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_every_sensor_is_asked_and_nothing_is_reported_as_failed() -> None:
    model, parts = RunModel(), sensors()
    await watched(Watch(RUN, parts, None), model, Ras)
    assert model.notices == []
    assert model.ras is not None and model.ras.error == "nobody answers"
    assert model.gpus is not None and model.processes is not None and model.heartbeat is not None
    assert isinstance(parts.processes, Processes_) and list(parts.processes.expected) == ["TP0", "TP1"]


@pytest.mark.parametrize("broken", ["gpu", "host", "kernel", "processes", "heartbeat", "ras"])
async def test_a_sensor_that_raises_is_said_once_and_the_others_go_on(broken: str) -> None:
    model = RunModel()
    await watched(Watch(RUN, sensors(broken), None), model, Notice)
    assert [broken in notice.text for notice in model.notices] == [True]


async def test_who_joins_late_is_sent_what_leads_to_the_present() -> None:
    watch = Watch(RUN, sensors(), None)
    watch.emit(Mark(2.0, id="weights", what="begin", phase="weights", rank="TP1"))
    late = RunModel()
    watch.listen(lambda event, _line: late.fold(event))
    assert late.run == RUN
    assert [mark.id for mark in late.marks("weights")] == ["weights"]


async def test_questions_that_nothing_can_answer_are_refused() -> None:
    watch = Watch(RUN, sensors(), None)
    with pytest.raises(Refused, match="no log"):
        await watch.window({"at": 0, "before": 0, "after": 1})
    with pytest.raises(Refused, match="no stacks"):
        await watch.dump()


async def test_what_a_look_finds_is_told_once_and_again_when_it_has_changed() -> None:
    answers = iter([None, *([Leftovers(1.0)] * 3), Leftovers(2.0), Leftovers(3.0, (Orphan(41, 1.0, "sglang::x"),))])
    found: list[Event] = []
    changed = asyncio.Event()

    def listen(event: Event, _line: bytes) -> None:
        if isinstance(event, Leftovers):
            found.append(event)
            if event.orphans:
                changed.set()

    parts = sensors()
    parts.looks = (
        Look("often", lambda _run, _now: next(answers, None), every_s=0.01),
        Look("broken", lambda _run, _now: Leftovers(1.0 / 0), every_s=0.01),
    )
    watch = Watch(RUN, parts, None)
    watch.listen(listen)
    running = asyncio.create_task(watch.run())
    await asyncio.wait_for(changed.wait(), 20)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [event.at for event in found] == [1.0, 3.0]
    assert watch.model.leftovers == found[-1]


def test_an_end_is_told_although_another_sensor_failed_when_it_was_seen() -> None:
    class Ended(Processes_):
        left: tuple[Exit, ...] = (Exit(1.0, 7, 1.0, "launcher"),)

        def vanished(self, now: float) -> list[Exit]:
            told, self.left = list(self.left), ()
            return told

    broken = sensors("kernel")
    broken.processes = Ended()
    watch = Watch(RUN, broken, None)
    with pytest.raises(OSError, match="kernel is broken"):
        watch._sample(1.0)
    broken.kernel = Kernel_()
    assert Exit(1.0, 7, 1.0, "launcher") in watch._sample(2.0)
