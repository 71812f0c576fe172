"""The loop over one run: sensors and log → events → model and judge → everyone who listens.

Each sensor that may block has a thread of its own (:data:`THREADS`), so that a driver that hangs or a peer that never
answers delays nothing else. Events are folded, recorded and sent on the event loop, in one order for everyone.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from launchmon_agent import codec
from launchmon_agent.clockset import ClockSet
from launchmon_agent.deaths import Deaths
from launchmon_agent.errors import Refused
from launchmon_agent.events import (
    Event,
    Exit,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Log,
    Mark,
    Notice,
    Processes,
    Progress,
    Ras,
    Run,
    Stacks,
    Verdict,
)
from launchmon_agent.judge.pace import Pace
from launchmon_agent.judge.verdict import judge, stall
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.lognews import LogNews
from launchmon_agent.model import RunModel
from launchmon_agent.redaction import redacted
from launchmon_agent.sglang.ranks import expected_ranks
from launchmon_agent.sglang.run import run_from_args
from launchmon_agent.sources import HttpSource, LogSource, Look, Sensors

T = TypeVar("T")
E = TypeVar("E", bound=Event)

SAMPLE_S = 1.0
RAS_S = 2.5
"""Half of the time between two questions to NCCL (sensors/ras.py): no turn of threads for nothing each second."""

FIRST_S = 5.0
"""How long a question about the processes waits for the first sample of them."""

LAST_WORDS_S = 1.0
"""How long a death waits for the log to be read, which may lie on a file system that hangs."""

RETRY_S = 5.0
FOREVER_S = 86400.0
STALL_DUMPS = 3
STALL_DUMP_EVERY_S = 5.0
"""When a stall begins, so many dumps are taken: frames that do not move tell a dead-lock from slow work."""

THREADS = ("sensors", "gpu", "log", "search", "http", "ras", "stacks")
"""What may block, each on its own: /proc and what is sampled with it, the GPU driver, the log, a search in it, the
server's port, NCCL, py-spy. Each look has one besides."""

REPLACEABLE = (Gpus, Processes, Host, Http, Heartbeat, Ras, Log, Progress)
"""Kinds of which only the newest counts: dropped for a listener who does not keep up."""


class Listener(Protocol):
    def __call__(self, event: Event, line: bytes, /) -> None: ...


class Watch:
    """Observes one run until cancelled. :attr:`model` is its state; listeners get each event as it happens."""

    def __init__(
        self,
        run: Run,
        sensors: Sensors | None,  # None: the run has ended, its files are all there is
        log: LogSource | None,
        *,
        clock: Callable[[], float] = time.time,
        exit_code: Callable[[int], int | None] = lambda _pid: None,
    ) -> None:
        self.model = RunModel()
        self.evidence = EvidenceWindow()
        self._sensors = sensors
        self._log = log
        self._log_news = None if log is None else LogNews(log, clock)
        self._clock = clock
        self._exit_code = exit_code
        self._http: HttpSource | None = None
        self._listeners: list[Listener] = []
        self._threads = {name: ThreadPoolExecutor(1, f"launchmon-{name}") for name in THREADS}
        self._poked = asyncio.Event()
        self._looked = asyncio.Event()  # at the processes, once
        self._http_changed = asyncio.Event()
        self._deaths = Deaths(clock, self.poke)
        self._pace = Pace()
        self._clock_set = ClockSet()
        self._verdict: Verdict | None = None  # the last one that was new
        self._stalled = False
        self._stall_dumps: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None  # a log's last words
        self._reported: set[str] = set()
        self._found: dict[str, Event] = {}  # by each look
        self._expect = tuple(expected_ranks(run))
        self.emit(run)
        self._recall()

    # ------------------------------------------------------------------------------------------------------- listening

    def listen(self, listener: Listener, *, caught_up: bool = True) -> Callable[[], None]:
        """Add a listener; it first gets the events that bring it to the present. Returns how to remove it."""
        if caught_up:
            for event in self.model.replay():
                listener(event, codec.encode(event))
        self._listeners.append(listener)

        def leave() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return leave

    def emit(self, event: E) -> E:
        """Fold an event and pass it on, without any secret in it, as it is returned. On the event loop only."""
        event = redacted(event)
        self.model.fold(event)
        self.evidence.fold(event)
        line = codec.encode(event)
        for listener in tuple(self._listeners):
            listener(event, line)
        return event

    async def looked(self) -> None:
        """Returns when the processes of the run are known: a moment after it was taken up, or :data:`FIRST_S`."""
        if self._sensors is not None and self.model.processes is None:
            # Not wait_for, which in 3.10 and 3.11 loses a cancellation that comes together with the end of the waiting.
            waiting = asyncio.ensure_future(self._looked.wait())
            try:
                await asyncio.wait({waiting}, timeout=FIRST_S)
            finally:
                waiting.cancel()

    def poke(self) -> None:
        """Sample now instead of at the next second: something is known to have happened."""
        self._poked.set()

    # --------------------------------------------------------------------------------------------------------- looping

    async def run(self) -> None:
        """Watch until cancelled. A sensor that fails is reported once and tried again; it never ends the watch."""
        tasks = [self._repeat("sample", self._sample_once), self._repeat("log", self._log_once)]
        if self._sensors is not None:
            tasks.append(self._repeat("gpu", self._gpu_once))
            tasks.append(self._repeat("ras", self._ras_once))
            for look in self._sensors.looks:
                self._threads[look.name] = ThreadPoolExecutor(1, f"launchmon-{look.name}")
                tasks.append(self._repeat(look.name, functools.partial(self._look_once, look)))
        if self._sensors is not None and self._sensors.http is not None:
            tasks.append(self._repeat("http", self._http_once))
        try:
            await asyncio.gather(*tasks)
        finally:
            self._close()

    async def _repeat(self, name: str, once: Callable[[], Any]) -> None:
        while True:
            try:
                await once()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - watching goes on whatever a sensor meets
                text = f"{name} failed: {type(error).__name__}: {error}"
                if text not in self._reported:
                    self._reported.add(text)
                    self.emit(Notice(self._clock(), source=name, text=text))
                await asyncio.sleep(RETRY_S)

    async def _sample_once(self) -> None:
        began = time.monotonic()  # the wall clock may be set meanwhile, by an hour
        self._mind_the_clock(began)
        found = await self._in("sensors", self._sample, self._clock())
        seen = self._clock()
        if self._log is not None and any(isinstance(event, Exit) for event in found):
            self._reading = asyncio.create_task(self._read_last_words(self._log))
            await asyncio.wait({self._reading}, timeout=LAST_WORDS_S)
        for event in found:  # nothing is waited for from here on: a death is judged with all that is known of it
            self.emit(self._completed(event, seen) if isinstance(event, Exit) else event)
            if isinstance(event, Processes):
                self._deaths.watch(event.processes)
        self._looked.set()
        self._judge()
        await _pause(max(0.05, SAMPLE_S - (time.monotonic() - began)), self._poked)

    async def _read_last_words(self, log: LogSource) -> None:
        """What the log says of a death is known before the death is; where that takes long, it comes later."""
        with contextlib.suppress(OSError, Refused):  # which following the log meets too, and reports
            for event in await self._in_log(lambda: log.poll(self._clock())):
                self._take_log_event(event)

    def _mind_the_clock(self, steady: float) -> None:
        """What stood still before the clock was set has stood still for nobody knows how long by the new time."""
        now = self._clock()
        moved = self._clock_set.by(now, steady)
        if moved is None:
            return
        self.evidence = EvidenceWindow()
        for event in (self.model.run, self.model.expected):
            if event is not None:
                self.evidence.fold(event)
        how = f"was set {'forward' if moved > 0 else 'back'} by {abs(moved):.0f} s" + (
            ", or it slept" if moved > 0 else ""
        )
        text = f"the clock of this machine {how}: what stands still is timed anew from now on"
        self.emit(Notice(now, source="clock", text=text))

    async def _gpu_once(self) -> None:
        """In a thread of its own: a driver in trouble can hold a call for a minute."""
        assert self._sensors is not None
        began = time.monotonic()
        self.emit(await self._in("gpu", self._sensors.gpu.sample, self._clock()))
        await asyncio.sleep(max(0.05, SAMPLE_S - (time.monotonic() - began)))

    async def _ras_once(self) -> None:
        """NCCL answers late when a process is stopped, which is when its answer counts: a thread of its own."""
        sample = self.model.processes
        if self._sensors is None or self._sensors.ras is None or sample is None:
            await asyncio.sleep(RAS_S)
            return
        ras, outstanding = self._sensors.ras, self.model.phases.run_phase() != "ready" or self._requests_wait()
        answer = await self._in("ras", lambda: ras.sample(self._clock(), sample.processes, outstanding=outstanding))
        if answer is not None and answer != self.model.ras:
            self.emit(answer)
        await asyncio.sleep(RAS_S)

    async def _look_once(self, look: Look) -> None:
        assert self.model.run is not None
        found = await self._in(look.name, look.find, self.model.run, self._clock())
        known = self._found.get(look.name)
        if found is not None and (known is None or dataclasses.replace(known, at=found.at) != found):
            self._found[look.name] = found
            self.emit(found)
        await asyncio.sleep(FOREVER_S if look.every_s is None else look.every_s)

    def _requests_wait(self) -> bool:
        beats = self.model.heartbeat.beats if self.model.heartbeat else ()
        return any(beat.running or beat.waiting for beat in beats)

    def _completed(self, exit_: Exit, seen: float) -> Exit:
        """With the moment and the status that others than the sensor know. ``seen``: when the sample was there.

        A process that ended while the sample was taken may not have been noticed here yet: it went after all that were,
        and not when the sample began.
        """
        at = self._deaths.at(exit_.pid, exit_.start_time)
        if at is None:
            at = seen if self._deaths.watches(exit_.pid, exit_.start_time) else exit_.at
        code = self._exit_code(exit_.pid) if exit_.code is None else exit_.code
        return dataclasses.replace(exit_, at=at, code=code)

    def _sample(self, now: float) -> list[Event]:
        if self._sensors is None:
            return []
        host = self._sensors.host.sample(now)
        if self._sensors.processes is None:
            return [host, *self._sensors.kernel.poll(now, ())]
        self._sensors.processes.expect(self._expect)
        processes = self._sensors.processes.sample(now, self.model.gpus)
        beats = [] if self._sensors.heartbeat is None else [self._sensors.heartbeat.sample(now, processes.processes)]
        messages = self._sensors.kernel.poll(now, [process.pid for process in processes.processes])
        # Told once, so asked last: another sensor that fails would lose them.
        ended = self._sensors.processes.vanished(now)
        return [host, processes, *ended, *beats, *messages]

    async def _log_once(self) -> None:
        if self._log_news is None:
            await asyncio.sleep(FOREVER_S)
            return
        for event in await self._in("log", self._log_news.wait):
            self._take_log_event(event)

    def _take_log_event(self, event: Event) -> None:
        event = self.emit(event)
        if isinstance(event, Mark):
            if event.id == "args" and self.model.run is not None:
                self._learn(run_from_args(self.model.run, event))
            if event.id == "ready":
                self.poke()

    def _learn(self, run: Run) -> None:
        if run == self.model.run:
            return
        self.emit(dataclasses.replace(run, at=self._clock()))
        self._expect = tuple(expected_ranks(run))
        self._http = None
        self._http_changed.set()
        self._recall()

    def _recall(self) -> None:
        """What earlier runs like this one took, once it is known what this one is."""
        if self._sensors is not None and self._sensors.expected is not None:
            known = self._sensors.expected(self.model, self._clock())
            if known is not None:
                self.emit(known)

    async def _http_once(self) -> None:
        assert self._sensors is not None and self._sensors.http is not None and self.model.run is not None
        await self.looked()  # the processes tell whose the port is
        if self._http is None:
            self._http = self._sensors.http(self.model.run, self._is_ours)
        sample = redacted(await self._in("http", self._http.sample, self._clock()))
        if self.model.http is None or dataclasses.replace(self.model.http, at=sample.at) != sample:
            self.emit(sample)
            self._judge()
        await _pause(SAMPLE_S if self._http is None else self._http.pause_s, self._http_changed)

    def _is_ours(self, pid: int) -> bool | None:
        sample = self.model.processes
        return None if sample is None else any(process.pid == pid for process in sample.processes)

    def _judge(self) -> None:
        now, stirs = self._clock(), self.evidence.stirs
        if not self._pace.is_due(stirs, now):
            return
        verdict = judge(self.model, self.evidence, now)
        self._pace.judged(verdict, stirs, now)
        if self._verdict is None or dataclasses.replace(self._verdict, at=verdict.at) != verdict:
            self._verdict = verdict
            self.emit(verdict)
        self._dump_when_stalled()

    def _dump_when_stalled(self) -> None:
        """The evidence of a stall is kept before anyone asks. Once for each stall."""
        stalled = stall(self.model, self.evidence, self._clock())
        if stalled and not self._stalled and self._sensors is not None and self._sensors.stacks is not None:
            self._stall_dumps = asyncio.create_task(self._dump_repeatedly())
        self._stalled = stalled

    async def _dump_repeatedly(self) -> None:
        for number in range(STALL_DUMPS):
            if number:
                await asyncio.sleep(STALL_DUMP_EVERY_S)
            if not self._stalled:
                return
            with contextlib.suppress(Refused):
                await self.dump(automatic=True)

    # ------------------------------------------------------------------------------------------------------- questions

    async def window(self, where: dict[str, Any]) -> Any:
        """A window of log lines, see :mod:`launchmon_agent.log.window`. Raises :class:`Refused`."""
        return await self._in_log(lambda: self._log_or_refuse().window(**where))

    async def search(self, what: dict[str, Any]) -> Any:
        """The next line that matches, as far as a slice of time reaches. Raises :class:`Refused`."""
        return await self._in("search", lambda: self._log_or_refuse().search(**what))

    async def count(self, what: dict[str, Any]) -> Any:
        """How many lines match, as far as a slice of time reaches. Raises :class:`Refused`."""
        return await self._in("search", lambda: self._log_or_refuse().count(**what))

    async def place(self, what: dict[str, Any]) -> Any:
        """Where a line or a time is in the log. Raises :class:`Refused`."""
        return await self._in_log(lambda: self._log_or_refuse().place(**what))

    async def dump(self, native: bool = False, locals_of: str | None = None, automatic: bool = False) -> Stacks:
        """The stacks of all ranks, as an event for everyone. Raises :class:`Refused` where there is nothing to read."""
        run, sample = self.model.run, self.model.processes
        if run is None or sample is None or not sample.processes or self._sensors is None or not self._sensors.stacks:
            raise Refused("there are no stacks to read", "no process of this run is alive")
        dumper = self._sensors.stacks(run, sample.processes)
        stacks = await self._in("stacks", lambda: dumper.dump(native, locals_of, automatic))
        self.emit(stacks)
        return stacks

    def _log_or_refuse(self) -> LogSource:
        if self._log is None:
            raise Refused(
                "this run has no log that launchmon can read",
                "its output goes neither to a file, nor through tee, nor to a tmux pane",
                "launchmon attach --log PATH",
            )
        return self._log

    async def _in_log(self, call: Callable[[], T]) -> T:
        if self._log_news is not None:
            self._log_news.disturb()
        return await self._in("log", call)

    async def _in(self, thread: str, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads[thread], call, *args)

    def _close(self) -> None:
        if self._log_news is not None:
            self._log_news.disturb()
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)
        self._deaths.close()
        for task in (self._stall_dumps, self._reading):
            if task is not None:
                task.cancel()
        if self._log is not None:
            self._log.close()


async def _pause(seconds: float, event: asyncio.Event) -> None:
    """Until the event is set, or so long."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
    event.clear()
