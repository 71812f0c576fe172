"""How many lines a search finds, and which of them is the one on the screen: counted in slices, as far as it has come.

The counting is the agent's; nothing waits for it, and it can be dropped between any two slices.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from launchmon.format import percent, thousands
from launchmon.session_like import CountedLike, SessionLike
from launchmon_agent.log.only import Only


class Tally:
    """Of one pattern among the lines that ``only`` leaves. ``changed`` is called when there is more to tell."""

    def __init__(
        self, session: SessionLike, pattern: str, regex: bool, only: Only, changed: Callable[[], None]
    ) -> None:
        self._session = session
        self._pattern, self._regex, self._only = pattern, regex, only
        self._changed = changed
        self._size = 0
        self._generation: int | None = None
        self._ends, self._counts = [0], [0]
        self._unfinished, self.done = 0, False
        self.current: int | None = None
        """Offset of the line on which the search stands; it may change while :meth:`run` does."""
        self.place: int | None = None
        """Which of the lines found is the current one, from 1; None until that is known."""
        self._located: int | None = None

    def __str__(self) -> str:
        """``3 of 128``; ``3 of 128… 41%`` while it counts."""
        if self._generation is None:
            return "counting"
        total = f"{thousands(self.total)}{'' if self.done else '…'}"
        place = "" if self.place is None or self._located != self.current else f"{thousands(self.place)} of "
        way = "" if self.done or not self._size else f" {percent(100 * self._came_to / self._size)}"
        return f"{place}{total}{way}"

    @property
    def total(self) -> int:
        """Lines found so far."""
        return self._counts[-1] + self._unfinished

    async def run(self) -> None:
        """Count on to the end of the log as it is now, and find the place of :attr:`current`."""
        while True:
            slice_ = await self._count(self._came_to, None)
            if slice_.generation != self._generation:
                whole = self._came_to == 0
                self._begin(slice_.generation)
                if not whole:
                    continue
            self._size = max(slice_.next, 0 if self._session.model.log is None else self._session.model.log.size)
            self._ends.append(slice_.next)
            self._counts.append(self._counts[-1] + slice_.count)
            self._unfinished, self.done = slice_.unfinished, slice_.done
            await self._locate()
            self._changed()
            beyond = self.current is not None and self.current > self._came_to  # it was in a log that was replaced
            if slice_.done and (self._located == self.current or beyond):
                return

    @property
    def _came_to(self) -> int:
        return self._ends[-1]

    async def _locate(self) -> None:
        """Find which of the lines the current one is, if the counting has come that far."""
        offset = self.current
        if offset == self._located or (offset is not None and offset > self._came_to):
            return
        if offset is None:
            self.place = self._located = None
            return
        known = bisect_right(self._ends, offset) - 1
        at, before = self._ends[known], self._counts[known]
        while at < offset:
            slice_ = await self._count(at, offset)
            before, at = before + slice_.count, slice_.next
            if slice_.done:
                break
        self.place, self._located = before + 1, offset

    async def _count(self, start: int, stop: int | None) -> CountedLike:
        return await self._session.count(self._pattern, start, stop, self._regex, self._only)

    def _begin(self, generation: int) -> None:
        """Nothing is counted yet of this generation of the log."""
        self._generation = generation
        self._ends, self._counts = [0], [0]
        self._unfinished, self.done = 0, False
        self.place = self._located = None
