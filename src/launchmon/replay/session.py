"""A session with a recording instead of an agent: the run as it was at one moment, which can be moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from launchmon.link import Link
from launchmon.replay.moments import Moment, moments
from launchmon.replay.recorded import Recorded
from launchmon.victim import Victim
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run, Stacks
from launchmon_agent.judge.cluster import Node
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.log.search import Found
from launchmon_agent.wire import Hello

if TYPE_CHECKING:
    from launchmon.session_like import CountedLike, LineLike, SessionLike

SPEEDS = (1, 2, 4, 8, 16, 32, 64)
"""Seconds of the recording in one second."""

NEAR = 2000
"""Lines that are folded one after the other, rather than jumped over."""


@dataclass(frozen=True)
class Part:
    """Lines of the log as it was then; as :class:`launchmon_agent.log.window.Window`."""

    lines: tuple[LineLike, ...]
    start: int
    end: int
    at_start: bool
    at_end: bool
    size: int
    generation: int


class ReplaySession:
    """Fulfils ``session_like.SessionLike``. Whoever shows it moves it: with :meth:`advance` as time goes by while
    :attr:`playing`, with the other methods when a person asks.

    ``log``: a session whose agent can read the log of this run; only what had been written by then is shown of it.
    """

    read_only = True
    log_is_read = True
    local_log = None
    """The file would show what came later."""

    def __init__(
        self,
        recorded: Recorded,
        target: str,
        log: SessionLike | None = None,
        *,
        owns_log: bool = False,
    ) -> None:
        """At the end of the recording, paused. ``owns_log``: the log's session is closed with this one."""
        self.recorded = recorded
        self.target = target
        self.moments: list[Moment] = moments(recorded)
        self.playing = False
        self.speed = SPEEDS[0]
        self.jumps = 0
        """Moves back so far: after one, what was read of the log may be of the future."""
        self._log = log
        self._owns_log = owns_log
        self._position = len(recorded)
        self._time = recorded.end
        self._subscribers: list[Callable[[], None]] = []
        self.model = recorded.model_at(self._position)
        self._newest_generation = self._generation

    nodes: tuple[Node, ...] = ()
    """A recording is of one node."""

    # ----------------------------------------------------------------------------------------------------- as a session

    @property
    def link(self) -> Link:
        state = f"×{self.speed}" if self.playing else "paused"
        return Link("replay", state, self._time)

    @property
    def hello(self) -> Hello | None:
        """Of the machine that the recording is on; a file does not tell."""
        return None if self._log is None else self._log.hello

    def age(self) -> float:
        """From the newest event to the moment that is shown, in seconds of the recording."""
        return max(0.0, self._time - self.model.now)

    def retry_in(self) -> float | None:
        """Nothing is ever lost."""
        return None

    def try_now(self) -> None:
        """There is no link."""

    async def back(self) -> None:
        """At once."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def window(self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False) -> Part:
        """As of an agent, of a log that ends where it ended then."""
        log, size = self._readable()
        place = size if at == "end" else min(int(at), size)
        found = await log.window(place, before, 0 if at == "end" else after, only, raw)
        return Part(
            lines=tuple(line for line in found.lines if line.offset < size),
            start=min(found.start, size),
            end=min(found.end, size),
            at_start=found.at_start,
            at_end=found.end >= size,
            size=size,
            generation=self._generation,
        )

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> Found:
        log, size = self._readable()
        found = await log.search(pattern, min(start, size), forward, regex, only)
        offset = None if found.offset is None or found.offset >= size else found.offset
        further = None if found.next is None or found.next >= size else found.next
        return Found(offset, None if offset is not None else further, self._generation)

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> CountedLike:
        log, size = self._readable()
        return await log.count(pattern, start, size if stop is None else min(stop, size), regex, only)

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        log, size = self._readable()
        return min(await log.place(line=line, moment=moment), size)

    async def dump(self, native: bool = False, locals_of: str | None = None) -> Stacks:  # noqa: ARG002  (the protocol's)
        self._refuse("no stacks can be read")

    async def kill_plan(self) -> list[Victim]:
        self._refuse("nothing can be ended")

    async def kill(self, force: bool = False) -> Any:  # noqa: ARG002
        self._refuse("nothing can be ended")

    async def relaunch_options(self) -> dict[str, Any]:
        self._refuse("nothing can be relaunched")

    async def relaunch_plan(self, **change: Any) -> dict[str, Any]:  # noqa: ARG002
        self._refuse("nothing can be relaunched")

    async def relaunch(self, **change: Any) -> Run:  # noqa: ARG002
        self._refuse("nothing can be relaunched")

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        """As the target has it now, where it can be asked."""
        if self._log is None:
            raise Refused("the attempts are not part of this recording", "it was read from a file")
        return await self._log.ledger(run)

    async def software(self) -> dict[str, str]:
        return {} if self._log is None else await self._log.software()

    async def recording(self) -> list[bytes]:
        return self.recorded.lines()

    async def close(self) -> None:
        if self._log is not None and self._owns_log:
            await self._log.close()

    # ------------------------------------------------------------------------------------------------------- moving

    @property
    def time(self) -> float:
        """The moment that is shown, by the target's clock."""
        return self._time

    @property
    def position(self) -> int:
        """Lines of the recording that are taken in."""
        return self._position

    @property
    def at_end(self) -> bool:
        return self._position >= len(self.recorded)

    def advance(self, seconds: float) -> None:
        """So much real time has gone by: while playing, move on. At the end it pauses."""
        if not self.playing:
            return
        time = self._time + seconds * self.speed
        if time >= self.recorded.end:
            self.playing = False
        self.to_time(time)

    def play_or_pause(self) -> None:
        """At the end, playing begins at the beginning."""
        self.playing = not self.playing
        if self.playing and self.at_end:
            self.to_time(self.recorded.begin)
        self._changed()

    def faster(self, steps: int) -> None:
        """``steps`` places up in :data:`SPEEDS`, or down where negative."""
        place = SPEEDS.index(self.speed) + steps
        self.speed = SPEEDS[max(0, min(place, len(SPEEDS) - 1))]
        self._changed()

    def to_time(self, time: float) -> None:
        time = max(self.recorded.begin, min(time, self.recorded.end))
        self._move(self.recorded.position(time), time)

    def by_seconds(self, seconds: float) -> None:
        self.playing = False
        self.to_time(self._time + seconds)

    def by_events(self, count: int) -> None:
        """Over so many events, back where negative. The first event cannot be taken back: it says which run it is."""
        self.playing = False
        position = max(1, min(self._position + count, len(self.recorded)))
        self._move(position, self.recorded.time(position))

    def to_moment(self, forward: bool) -> Moment | None:
        """To the next mark, or the one before; None where there is none, and nothing is moved."""
        if forward:
            found = next((one for one in self.moments if one.position > self._position), None)
        else:
            found = next((one for one in reversed(self.moments) if one.position < self._position), None)
        if found is not None:
            self.playing = False
            self._move(found.position, found.at)
        return found

    def _move(self, position: int, time: float) -> None:
        self._time = time
        ahead = position - self._position
        if 0 <= ahead <= NEAR:
            self.recorded.advance(self.model, self._position, position)
        else:
            self.model = self.recorded.model_at(position)
        self.jumps += ahead < 0
        self._position = position
        self._changed()

    # ------------------------------------------------------------------------------------------------------ within

    def _readable(self) -> tuple[SessionLike, int]:
        """Who reads the log, and the bytes that it had then. Raises :class:`Refused` where that log cannot be read."""
        if self._log is None:
            raise Refused("the log is not part of this recording", "it was read from a file of events alone")
        log = self.model.log
        if log is not None and log.generation != self._newest_generation:
            raise Refused("the log of that time is gone", "it was rotated or replaced since")
        return self._log, 0 if log is None else log.size

    @property
    def _generation(self) -> int:
        return 0 if self.model.log is None else self.model.log.generation

    def _refuse(self, what: str) -> NoReturn:
        raise Refused(
            f"{what}: this is a recording", "what it shows has passed", "launchmon attach    # if the run still goes on"
        )

    def _changed(self) -> None:
        for callback in tuple(self._subscribers):
            callback()
