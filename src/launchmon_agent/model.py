"""A run as the stream of its events tells it. Pure: fold events in, read the state out.

The agent's judge, the live view, a replay and the tests all hold one of these. What is told twice counts once: a client
that lost its link folds what it is told after its return into the model it had before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from launchmon_agent.clockset import LEAST_S
from launchmon_agent.events import (
    Action,
    Event,
    Exit,
    Expected,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Installed,
    Kernel,
    Leftovers,
    Log,
    LogError,
    Mark,
    ModelFiles,
    Notice,
    Process,
    Processes,
    Progress,
    Ras,
    Run,
    Stacks,
    Verdict,
)
from launchmon_agent.marks_known import KnownMarks
from launchmon_agent.samples import Samples
from launchmon_agent.sglang.phases import PhaseBoard
from launchmon_agent.sglang.ranks import expected_ranks

KEPT = 500
"""Errors, exits, kernel messages and notices kept, oldest out first; the first error is never dropped."""

STACKS_KEPT = 20
"""Dumps kept, oldest out first."""

SAME_MESSAGE_S = 2.0
"""Times of kernel messages are made from the clock since boot, which each reader compares anew."""

_E = TypeVar("_E", bound=Event)


class RunModel:
    """State of one run. Attributes are ``None`` or empty until an event fills them."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.processes: Processes | None = None
        self.gpus: Gpus | None = None
        self.host: Host | None = None
        self.http: Http | None = None
        self.log: Log | None = None
        self.heartbeat: Heartbeat | None = None
        self.ras: Ras | None = None
        self.expected: Expected | None = None
        self.installed: Installed | None = None
        self.model_files: ModelFiles | None = None
        self.leftovers: Leftovers | None = None
        self.verdict: Verdict | None = None
        self.exits: list[Exit] = []
        self.errors: list[LogError] = []
        self.kernel: list[Kernel] = []
        self.notices: list[Notice] = []
        self.actions: dict[str, list[Action]] = {}
        self.stacks: list[Stacks] = []  # dumps, newest last
        self.phases = PhaseBoard()
        self.now = 0.0  # the target's time of the newest event that was observed, not read from the log
        self.began_observing: float | None = None
        self._marks: list[Mark] = []
        self._known_marks = KnownMarks()
        self._progress: dict[tuple[str, str | None], Progress] = {}
        self.samples = Samples()

    # ------------------------------------------------------------------------------------------------------------ fold

    def fold(self, event: Event) -> None:
        """Take one event in. Kinds that this version does not know change nothing."""
        if not isinstance(event, (Mark, Progress, LogError)):
            self.now = max(self.now, event.at)
            if self.began_observing is None:
                self.began_observing = event.at
        match event:
            case Run():
                self.run = event
                self.phases.apply(event)
                self.phases.expect(self._expected(event))
            case Processes():
                self._follow_clock(event)
                if self.processes is None or event.at > self.processes.at:
                    self.samples.take_processes(event)
                self.processes = event
            case Gpus():
                self._fold_gpus(event)
            case Host():
                self.host = event
            case Http():
                self.http = event
            case Log():
                if self.log is not None and event.generation != self.log.generation:
                    self._forget_log()
                self.log = event
            case Mark():
                self._fold_mark(event)
            case Progress():
                self._progress[event.rank, event.phase] = event
                self.phases.apply(event)
            case LogError():
                self._fold_error(event)
            case Exit():
                self._fold_exit(event)
            case Kernel():
                if not any(
                    known.text == event.text and abs(known.at - event.at) <= SAME_MESSAGE_S for known in self.kernel
                ):
                    _append(self.kernel, event)
            case Notice():
                if not any((note.source, note.text) == (event.source, event.text) for note in self.notices):
                    _append(self.notices, event)
            case Action():
                steps = self.actions.setdefault(event.id, [])
                if event not in steps:
                    steps.append(event)
                    self.phases.apply(event)
            case Verdict():
                self.verdict = event
            case Heartbeat():
                self.heartbeat = event
            case Ras():
                self.ras = event
            case Expected():
                self.expected = event
            case Installed():
                self.installed = event
            case ModelFiles():
                self.model_files = event
            case Leftovers():
                self.leftovers = event
            case Stacks():
                if not any(dump.id == event.id for dump in self.stacks):
                    _append(self.stacks, event, most=STACKS_KEPT)

    def _expected(self, run: Run) -> list[str]:
        """Tags of the ranks that the processes of this model should have."""
        return expected_ranks(run)

    def _follow_clock(self, event: Processes) -> None:
        """Samples of a kind come in order: one of long before the last is of a clock that was set back."""
        if self.processes is not None and self.processes.at - event.at > LEAST_S:
            self.now = event.at

    def _fold_gpus(self, event: Gpus) -> None:
        told_before = self.gpus is not None and event.at <= self.gpus.at and event.source == self.gpus.source
        self.gpus = event
        if told_before:
            return
        self.samples.take_gpus(event)

    def interrupted(self, seconds: float) -> None:
        """Nobody watched for so long."""
        self.samples.interrupted(seconds)

    def _fold_mark(self, event: Mark) -> None:
        if not self._known_marks.take(event):
            if event.id == "args":  # what was read again from before it is of an earlier launch
                self.errors = [error for error in self.errors if error.offset >= event.offset]
            return
        if self.launch_begins_with(event):
            self._forget_launch()
        self._marks.append(event)
        self.phases.apply(event)

    def _fold_error(self, event: LogError) -> None:
        for place, known in enumerate(self.errors):
            if (known.offset, known.id, known.node) == (event.offset, event.id, event.node):
                self.errors[place] = event  # the same error with its last line known
                return
        _append(self.errors, event, keep_first=1)
        self.phases.apply(event)

    def _fold_exit(self, event: Exit) -> None:
        for place, known in enumerate(self.exits):
            if (known.pid, known.start_time) == (event.pid, event.start_time):
                if known.code is None and event.code is not None:
                    self.exits[place] = event
                return
        _append(self.exits, event)
        self.phases.apply(event)

    def launch_begins_with(self, event: Mark) -> bool:
        """Whether this mark is the ``server_args=`` line of another launch in the same log."""
        return event.id == "args" and any(mark.id == "args" for mark in self._marks)

    def _forget_launch(self) -> None:
        self._marks.clear()
        self._progress.clear()
        self.errors = [error for error in self.errors if self.log and error.offset >= self.log.launch_offset]

    def _forget_log(self) -> None:
        """The log was replaced: offsets start again, and what follows is told by the new file."""
        self.errors.clear()
        self._known_marks.log_replaced()

    # ------------------------------------------------------------------------------------------------------------ read

    @property
    def launcher(self) -> Process | None:
        """The launcher in the newest sample; ``None`` when it is not there (any more)."""
        if self.run is None or self.processes is None:
            return None
        for process in self.processes.processes:
            if process.pid == self.run.pid and process.state != "Z":
                return process
        return None

    @property
    def launcher_exit(self) -> Exit | None:
        if self.run is None:
            return None
        for exit_ in self.exits:
            if exit_.pid == self.run.pid:
                return exit_
        return None

    def rank_rows(self) -> list[Process]:
        """Schedulers in order. A rank that is expected but has no process yet has pid 0."""
        seen = [] if self.processes is None else self.processes.processes
        rows = {process.rank: process for process in seen if process.rank is not None}
        expected = [] if self.run is None else self._expected(self.run)
        missing = [Process(pid=0, start_time=0.0, role="scheduler", rank=tag) for tag in expected if tag not in rows]
        if rows and not any(tag in rows for tag in expected):
            missing = []  # the tags differ from what the command line made us expect: show what is there
        order = {tag: place for place, tag in enumerate(expected)}
        return sorted(
            [*rows.values(), *missing], key=lambda row: (order.get(row.rank or "", len(order)), row.rank or "")
        )

    def progress(self, phase: str) -> Progress | None:
        """The newest refresh of a bar of this phase, of whichever rank."""
        bars = [bar for (_, shown), bar in self._progress.items() if shown == phase]
        return max(bars, key=lambda bar: bar.at, default=None)

    def last_line_at(self, rank: str) -> float | None:
        if self.log is None:
            return None
        for line in self.log.last:
            if line.rank == rank:
                return line.at
        return None

    @property
    def all_marks(self) -> Sequence[Mark]:
        """Of the newest launch, in the order in which they were read."""
        return tuple(self._marks)

    def marks(self, id_: str) -> list[Mark]:
        return [mark for mark in self._marks if mark.id == id_]

    @property
    def first_failure(self) -> LogError | None:
        """The earliest error of this launch that is no mere consequence of another."""
        failures = [error for error in self.errors if error.severity in ("fatal", "error")]
        fatal = [error for error in failures if error.severity == "fatal"]
        return min(fatal or failures, key=lambda error: error.offset, default=None)

    def replay(self) -> Iterator[Event]:
        """The events that bring another model to this state: what a newcomer is sent first."""
        for state in (self.run, self.log):
            if state is not None:
                yield state
        yield from self._marks
        yield from self._progress.values()
        for steps in self.actions.values():  # before what ended because of them
            yield from steps
        yield from self.errors
        yield from self.exits
        yield from self.kernel
        yield from self.notices
        yield from self.stacks
        latest = (
            self.expected,
            self.installed,
            self.model_files,
            self.leftovers,
            self.host,
            self.gpus,
            self.processes,
            self.http,
            self.heartbeat,
            self.ras,
            self.verdict,
        )
        for sample in latest:
            if sample is not None:
                yield sample


def _append(kept: list[_E], event: _E, keep_first: int = 0, most: int = KEPT) -> None:
    kept.append(event)
    if len(kept) > most:
        del kept[keep_first]
