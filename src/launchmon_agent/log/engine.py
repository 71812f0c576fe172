"""One log as the watch uses it: where it comes from, what is new in it, windows and search. One thread at a time."""

from __future__ import annotations

from launchmon_agent.errors import Refused
from launchmon_agent.events import Event
from launchmon_agent.log.follow import Follower, Scanner
from launchmon_agent.log.match import matcher
from launchmon_agent.log.search import Found, search
from launchmon_agent.log.source import LogFile
from launchmon_agent.log.sources import Source
from launchmon_agent.log.window import Filter, OwnerOf, Window, window


class LogEngine:
    """Closes ``source`` with itself. Raises :class:`Refused` where the source's path can never be a log."""

    def __init__(self, source: Source, scanner: Scanner, owner_of: OwnerOf) -> None:
        self.source = source
        self._follower = Follower(LogFile(source.path), scanner)
        self._owner_of = owner_of

    @property
    def behind(self) -> bool:
        """There is more to do at once: poll again without waiting."""
        return self._follower.behind

    def poll(self, now: float) -> list[Event]:
        """A slice of work; what was found, in file order, and the state of the log where it changed."""
        self.source.poll(now)
        self._follower.source_problem = self.source.problem
        return self._follower.poll(now)

    def window(
        self,
        at: int | str = "end",
        before: int = 0,
        after: int = 0,
        rank: str | None = None,
        pattern: str | None = None,
        regex: bool = False,
        ignore_case: bool | None = None,
    ) -> Window:
        """See :func:`launchmon_agent.log.window.window`. Raises :class:`Refused`."""
        if at != "end" and not _whole(at):
            raise Refused(f"{at!r} is no place in a log", "it takes an offset in bytes, or 'end'")
        if not (_whole(before) and _whole(after)):
            raise Refused("a window has a whole number of lines", f"it was asked for {before!r} and {after!r}")
        wanted = self._wanted(rank, pattern, regex, ignore_case)
        try:
            return window(self._follower.log.content, self._follower.index, at, before, after, wanted)
        finally:
            _close(wanted)

    def search(
        self,
        pattern: str,
        start: int = 0,
        forward: bool = True,
        regex: bool = False,
        rank: str | None = None,
        ignore_case: bool | None = None,
    ) -> Found:
        """See :func:`launchmon_agent.log.search.search`. Raises :class:`Refused`."""
        if not _whole(start):
            raise Refused(f"{start!r} is no place in a log", "it takes an offset in bytes")
        wanted = self._wanted(rank, pattern, regex, ignore_case)
        try:
            return search(self._follower.log.content, start, wanted, forwards=bool(forward))
        finally:
            _close(wanted)

    def close(self) -> None:
        self._follower.close()
        self.source.close()

    def _wanted(self, rank: str | None, pattern: str | None, regex: bool, ignore_case: bool | None) -> Filter:
        if pattern is None:
            return Filter(self._owner_of, rank)
        if not isinstance(pattern, str):
            raise Refused("a pattern is text", f"it was given {pattern!r}")
        # As in less -i and vim's smartcase: capitals in the pattern are meant.
        fold = pattern == pattern.lower() if ignore_case is None else bool(ignore_case)
        return Filter(self._owner_of, rank, matcher(pattern, regex=bool(regex), ignore_case=fold))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _close(wanted: Filter) -> None:
    if wanted.matcher is not None:
        wanted.matcher.close()
