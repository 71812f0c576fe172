"""What those who show a session, or write one down, ask of it, and nothing more. All kinds of sessions fulfil it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from launchmon.victim import Victim
from launchmon_agent import events
from launchmon_agent.judge.cluster import Node
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.wire import Hello


class CellLike(Protocol):
    """One phase of the rail (``launchmon_agent.sglang.phases.Cell``)."""

    @property
    def phase(self) -> str: ...
    @property
    def state(self) -> str: ...  # pending | running | done | skipped | stopped | failed
    @property
    def begin(self) -> float | None: ...
    @property
    def end(self) -> float | None: ...
    @property
    def seconds(self) -> float | None: ...  # in it so far, without pauses
    @property
    def slowest_rank(self) -> str | None: ...
    @property
    def progress(self) -> events.Progress | None: ...
    @property
    def also(self) -> tuple[str, ...]: ...  # what goes on inside it: download, jit


class SpanLike(Protocol):
    """One phase of one rank (``launchmon_agent.sglang.phases.Span``)."""

    @property
    def phase(self) -> str: ...
    @property
    def begin(self) -> float | None: ...
    @property
    def end(self) -> float | None: ...
    @property
    def progress(self) -> events.Progress | None: ...


class BoardLike(Protocol):
    def rail(self, now: float) -> Sequence[CellLike]: ...
    def current(self, rank: str) -> SpanLike | None: ...


class SamplesLike(Protocol):
    """The last samples, oldest first; ``None`` where nobody looked (``launchmon_agent.samples.Samples``)."""

    def of_gpu(self, index: int, node: int | None = None) -> Sequence[events.Gpu | None]: ...
    def of_rank(self, tag: str, node: int | None = None) -> Sequence[events.Process | None]: ...


class ModelLike(Protocol):
    """State of one run, as ``launchmon_agent.model.RunModel`` has it. Read only here."""

    @property
    def run(self) -> events.Run | None: ...
    @property
    def processes(self) -> events.Processes | None: ...
    @property
    def gpus(self) -> events.Gpus | None: ...
    @property
    def host(self) -> events.Host | None: ...
    @property
    def http(self) -> events.Http | None: ...
    @property
    def log(self) -> events.Log | None: ...
    @property
    def verdict(self) -> events.Verdict | None: ...
    @property
    def exits(self) -> Sequence[events.Exit]: ...
    @property
    def errors(self) -> Sequence[events.LogError]: ...
    @property
    def notices(self) -> Sequence[events.Notice]: ...
    @property
    def actions(self) -> Mapping[str, Sequence[events.Action]]: ...
    @property
    def stacks(self) -> Sequence[events.Stacks]: ...  # all dumps of the run, newest last
    @property
    def phases(self) -> BoardLike: ...
    @property
    def now(self) -> float: ...
    @property
    def samples(self) -> SamplesLike: ...
    def rank_rows(self) -> Sequence[events.Process]: ...
    def last_line_at(self, rank: str) -> float | None: ...
    @property
    def all_marks(self) -> Sequence[events.Mark]: ...  # of this launch, in the order of the log


class LinkLike(Protocol):
    """The pipe to the agent."""

    @property
    def state(self) -> str: ...  # connecting | live | lost | ended
    @property
    def message(self) -> str: ...
    @property
    def since(self) -> float: ...
    @property
    def given_up(self) -> bool: ...  # lost, and tried again only when somebody asks for it


class LineLike(Protocol):
    @property
    def offset(self) -> int: ...
    @property
    def number(self) -> int | None: ...  # from 1; None beyond the part that is indexed
    @property
    def text(self) -> str: ...
    @property
    def rank(self) -> str | None: ...
    @property
    def cut(self) -> bool: ...  # the line is longer than what was sent
    @property
    def level(self) -> str: ...  # error | warning | info | debug; of a continuation line that of its record


class WindowLike(Protocol):
    """Lines around a place in the log, in order. ``start`` and ``end`` bound the bytes that were looked at."""

    @property
    def lines(self) -> Sequence[LineLike]: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def at_start(self) -> bool: ...
    @property
    def at_end(self) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def generation(self) -> int: ...


class FoundLike(Protocol):
    """A slice of a search: the line's ``offset``, or None; then ``next`` is where to search on, or None: nothing is."""

    @property
    def offset(self) -> int | None: ...
    @property
    def next(self) -> int | None: ...


class CountedLike(Protocol):
    """A slice of a count: ``count`` lines begin before ``next``; ``done``: there is no more to count now."""

    @property
    def count(self) -> int: ...
    @property
    def next(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def unfinished(self) -> int: ...  # 1: a last line without a newline is wanted too, and counted again later
    @property
    def generation(self) -> int: ...


class SessionLike(Protocol):
    """One run being watched. Requests raise :class:`launchmon_agent.errors.Refused`."""

    @property
    def model(self) -> ModelLike: ...
    @property
    def link(self) -> LinkLike: ...
    @property
    def target(self) -> str: ...
    @property
    def hello(self) -> Hello | None: ...  # of the agent; None: it is not known who answered
    @property
    def read_only(self) -> bool: ...
    @property
    def nodes(self) -> Sequence[Node]: ...  # of a run on several targets, by number; else empty
    @property
    def log_is_read(self) -> bool: ...  # to its end; True also where there is no log

    @property
    def local_log(self) -> str | None: ...  # path of the log, where it is a file on this machine

    def age(self) -> float:
        """Seconds since the last event, by this machine's clock."""
        ...

    def retry_in(self) -> float | None:
        """Seconds until a lost link is tried again; None where nothing is waited for."""
        ...

    def try_now(self) -> None:
        """Try a lost link again at once."""
        ...

    async def back(self) -> None:
        """Wait while the link is lost. Raises Refused when it has ended."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back on the event loop whenever anything changed; returns how to stop that."""
        ...

    async def window(
        self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False
    ) -> WindowLike:
        """``before`` lines that end at or before ``at`` and ``after`` lines from the one that holds ``at`` on.

        ``at`` is an offset in bytes or ``"end"``; ``raw`` gives lines with all that a terminal would not show.
        """
        ...

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> FoundLike:
        """The first line that matches, at or after ``start``; the last one before ``start`` when not ``forward``.

        Bounded in time: it may come no further than ``next``. Capitals count only in a pattern that has some.
        """
        ...

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> CountedLike:
        """How many lines match from ``start`` up to ``stop`` (None: the end). Bounded in time as well."""
        ...

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        """The offset of a line by its number, from 1, or of the first line of a time."""
        ...

    async def kill_plan(self) -> Sequence[Victim]: ...

    async def kill(self, force: bool) -> Any:
        """Returns when the kill is over. Its steps arrive as ``Action`` events in the model."""
        ...

    async def dump(self, native: bool = False, locals_of: str | None = None) -> events.Stacks:
        """Read the stacks of all ranks now. The dump is in the model too, soon.

        ``locals_of``: the rank (or role) of which local variables are wanted.
        """
        ...

    async def relaunch_options(self) -> dict[str, Any]:
        """The run's command and variables, the flags and toggles of its SGLang, and the remedies of the verdict."""
        ...

    async def relaunch_plan(self, **change: Any) -> dict[str, Any]:
        """What :meth:`relaunch` with the same arguments would start; changes nothing."""
        ...

    async def relaunch(self, **change: Any) -> events.Run:
        """End the run and follow its next attempt, with a model of its own. After a refusal nothing was started.

        ``change``: ``add``, ``drop``, ``set``, ``unset``, ``back_to``, ``force`` (without grace), ``anyway`` (start
        whatever the preflight says).
        """
        ...

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        """The attempts of the series of ``run``, or of the run that is followed."""
        ...

    async def recording(self) -> list[bytes]:
        """All events of the run so far, as lines."""
        ...

    async def software(self) -> dict[str, str]:
        """Name → version of what is installed for the server."""
        ...

    async def close(self) -> None: ...
