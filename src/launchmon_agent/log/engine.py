"""One log as the watch uses it: where it comes from, what is new in it, windows, search and counts.

One thread at a time; ``search`` and ``count`` may run in another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from launchmon_agent.errors import Refused
from launchmon_agent.events import Event
from launchmon_agent.log.filter import Filter, OwnerOf
from launchmon_agent.log.follow import Follower, Scanner
from launchmon_agent.log.match import Matcher, Matchers
from launchmon_agent.log.moment import find
from launchmon_agent.log.only import Only
from launchmon_agent.log.search import Counted, Found, count, search
from launchmon_agent.log.source import LogFile
from launchmon_agent.log.sources import Source
from launchmon_agent.log.window import Window, window


@dataclass(frozen=True)
class Place:
    """Where a line begins."""

    offset: int
    generation: int


class LogEngine:
    """Closes ``source`` with itself. Raises :class:`Refused` where the source's path can never be a log."""

    def __init__(self, source: Source, scanner: Scanner, owner_of: OwnerOf) -> None:
        self.source = source
        self._follower = Follower(LogFile(source.path), scanner)
        self._owner_of = owner_of
        self._window_matchers = Matchers()
        self._search_matchers = Matchers()

    @property
    def behind(self) -> bool:
        """There is more to do at once: poll again without waiting."""
        return self._follower.behind

    def poll(self, now: float) -> list[Event]:
        """A slice of work; what was found, in file order, and the state of the log where it changed."""
        self.source.poll(now)
        self._follower.source_problem = self.source.problem
        return self._follower.poll(now)

    def window(self, at: int | str = "end", before: int = 0, after: int = 0, raw: bool = False, **only: Any) -> Window:
        """See :func:`launchmon_agent.log.window.window`; ``only``: fields of :class:`Only`. Raises :class:`Refused`."""
        if at != "end" and not _whole(at):
            raise Refused(f"{at!r} is no place in a log", "it takes an offset in bytes, or 'end'")
        if not (_whole(before) and _whole(after)):
            raise Refused("a window has a whole number of lines", f"it was asked for {before!r} and {after!r}")
        wanted = _filter(self._owner_of, self._window_matchers, Only.of(only))
        return window(self._follower.log.content, self._follower.index, at, before, after, wanted, raw=bool(raw))

    def place(self, line: int | None = None, moment: str | None = None) -> Place:
        """Where the line of that number (from 1) begins, or the first one of that time. Raises :class:`Refused`."""
        content, index = self._follower.log.content, self._follower.index
        if isinstance(moment, str):
            return Place(find(content, moment, self._follower.launch_offset), content.generation)
        if not _whole(line):
            raise Refused("a place in the log is a line number or a time", f"it was given {line!r}")
        offset = index.offset_of(max(0, cast(int, line) - 1))
        if offset is None:
            counted = f"{index.lines:,} lines are counted so far" if self.behind else f"it has {index.lines:,} lines"
            raise Refused(f"the log has no line {line:,}", counted)
        return Place(offset, content.generation)

    # The next two are called by a thread of their own: they share nothing with the others but the open file.

    def search(
        self,
        pattern: str,
        start: int = 0,
        forward: bool = True,
        regex: bool = False,
        ignore_case: bool | None = None,
        **only: Any,
    ) -> Found:
        """See :func:`launchmon_agent.log.search.search`. Raises :class:`Refused`."""
        wanted = self._searched(start, pattern, regex, ignore_case, only)
        return search(self._follower.log.content, start, wanted, forwards=bool(forward))

    def count(self, pattern: str, start: int = 0, stop: int | None = None, regex: bool = False, **only: Any) -> Counted:
        """See :func:`launchmon_agent.log.search.count`. Raises :class:`Refused`."""
        wanted = self._searched(start, pattern, regex, None, only)
        return count(self._follower.log.content, start, stop if _whole(stop) else None, wanted)

    def close(self) -> None:
        self._window_matchers.close()
        self._search_matchers.close()
        self._follower.close()
        self.source.close()

    def _searched(
        self, start: object, pattern: object, regex: object, ignore_case: bool | None, only: dict[str, Any]
    ) -> Filter:
        if not _whole(start):
            raise Refused(f"{start!r} is no place in a log", "it takes an offset in bytes")
        searched = _matcher(self._search_matchers, pattern, regex, ignore_case)
        return _filter(self._owner_of, self._search_matchers, Only.of(only), searched)


def _filter(owner_of: OwnerOf, matchers: Matchers, only: Only, searched: Matcher | None = None) -> Filter:
    text = None if only.only is None else _matcher(matchers, only.only, only.only_regex, None)
    return Filter(owner_of, only.rank, searched, only.level, text)


def _matcher(matchers: Matchers, pattern: object, regex: object, ignore_case: bool | None) -> Matcher:
    if not isinstance(pattern, str):
        raise Refused("a pattern is text", f"it was given {pattern!r}")
    # As in less -i and vim's smartcase: capitals in the pattern are meant.
    fold = pattern == pattern.lower() if ignore_case is None else bool(ignore_case)
    return matchers.get(pattern, regex=bool(regex), ignore_case=fold)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
