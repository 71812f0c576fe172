"""The watch over sensors that the test holds: one order for everyone, and no sensor's failure ends it."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import pytest

from launchmon_agent import watch as watch_module
from launchmon_agent.errors import Refused
from launchmon_agent.events import (
    Event,
    Exit,
    Gpu,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Leftovers,
    LogError,
    Mark,
    Notice,
    Orphan,
    Process,
    Processes,
    Ras,
    Run,
    Verdict,
)
from launchmon_agent.model import RunModel
from launchmon_agent.sources import LogSource, Look, Sensors
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


class Log_:
    """A log of which nothing is told."""

    behind = False

    def close(self) -> None: ...


class SlowProcesses(Processes_):
    """Looks only once the port has been looked at, or in vain for a while."""

    def __init__(self, port_seen: threading.Event) -> None:
        super().__init__()
        self.port_seen = port_seen

    def sample(self, now: float, gpus: Gpus | None) -> Processes:
        self.port_seen.wait(0.3)
        return super().sample(now, gpus)


async def test_whose_the_port_is_is_not_asked_before_the_processes_are_known() -> None:
    port_seen = threading.Event()
    told: list[bool | None] = []

    class Http_:
        pause_s = 0.0

        def __init__(self, run: Run, is_ours: Callable[[int], bool | None]) -> None:
            self.is_ours = is_ours

        def sample(self, now: float) -> Http:
            port_seen.set()
            told.append(self.is_ours(7))
            return Http(now, port=1, listening=True)

    found = dataclasses.replace(sensors(), processes=SlowProcesses(port_seen), http=Http_)
    await watched(Watch(RUN, found, None), RunModel(), Http)
    assert set(told) == {True}


async def test_the_last_words_of_what_has_died_are_read_before_it_is_judged() -> None:
    dead = threading.Event()

    class Dying(Processes_):
        def vanished(self, now: float) -> list[Exit]:
            if dead.is_set():
                return []
            dead.set()
            return [Exit(now, 7, 1.0, "launcher", None, 1)]

    class Telling(Log_):
        def poll(self, now: float) -> list[Event]:
            return [LogError(now, text="RuntimeError: why")] if dead.is_set() else []

    order: list[str] = []
    watch = Watch(RUN, dataclasses.replace(sensors(), processes=Dying()), cast(LogSource, Telling()))
    watch.listen(lambda event, _: order.append(event.kind) if isinstance(event, (LogError, Verdict)) else None)
    await watched(watch, RunModel(), Verdict)
    assert order[:2] == ["error", "verdict"]


async def test_a_log_that_hangs_does_not_hold_up_the_news_of_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "LAST_WORDS_S", 0.01)
    hangs = threading.Event()

    class Dying(Processes_):
        def vanished(self, now: float) -> list[Exit]:
            return [Exit(now, 7, 1.0, "launcher", None, 1)] if self.asked["processes"] == 1 else []

    class Hanging(Log_):
        def poll(self, now: float) -> list[Event]:
            hangs.wait(20)
            return []

    watch = Watch(RUN, dataclasses.replace(sensors(), processes=Dying()), cast(LogSource, Hanging()))
    try:
        await watched(watch, RunModel(), Verdict)
    finally:
        hangs.set()


async def test_what_the_log_tells_while_the_processes_are_looked_at_disturbs_no_look_at_the_port() -> None:
    port_seen = threading.Event()

    class Http_:
        pause_s = 0.0

        def __init__(self, run: Run, is_ours: Callable[[int], bool | None]) -> None: ...

        def sample(self, now: float) -> Http:
            return Http(now, port=1, listening=True)

    class Telling(Log_):
        behind = True

        def poll(self, now: float) -> list[Event]:
            if not self.behind:
                return []
            self.behind = False
            return [Mark(1.0, id="args", values={"tp_size": "4"})]

    found = dataclasses.replace(sensors(), processes=SlowProcesses(port_seen), http=Http_)
    seen: list[Event] = []
    watch = Watch(RUN, found, cast(LogSource, Telling()))
    watch.listen(lambda event, _: seen.append(event))
    await watched(watch, RunModel(), Http)
    assert [event for event in seen if isinstance(event, Run)][-1].tp == 4
    assert not [event for event in seen if isinstance(event, Notice)]
