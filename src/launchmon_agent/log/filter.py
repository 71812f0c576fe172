"""Which lines of a log are wanted: of one rank, of a level, with a text; and whose a line is, and how serious."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from launchmon_agent.log.content import Content
from launchmon_agent.log.level import LEVELS, inherited, level_of, may_tell
from launchmon_agent.log.lines import Block, RawLine, backward
from launchmon_agent.log.match import Matcher, plain

OWNER_BLOCKS = 2
"""Blocks looked back through for the line that a continuation line belongs to."""

LEVEL_BACK = 32 * 1024
"""Bytes looked back through for the record whose level a continuation line has."""

FEW = 32
"""Matching lines of a block whose owners are looked for one by one: more, and all lines are gone through once."""

OwnerOf = Callable[[bytes], "str | None"]
"""Whose line this is by its own prefix ("DP1 TP0", "launcher"); None for a line without one: a continuation."""

Owned = tuple[RawLine, "str | None"]
"""A line and whose it is."""


@dataclass(frozen=True)
class Filter:
    """``rank`` and ``level`` None: all; a level means that or a more serious one. A wanted line matches both matchers.

    ``only`` is what a person filters by, ``matcher`` what is searched in the lines that remain.
    """

    owner_of: OwnerOf
    rank: str | None = None
    matcher: Matcher | None = None
    level: str | None = None
    only: Matcher | None = None

    @property
    def takes_all(self) -> bool:
        return self.rank is None and self.level is None and not self._matchers

    @property
    def _matchers(self) -> list[Matcher]:
        return [one for one in (self.only, self.matcher) if one is not None]

    def select(self, content: Content, block: Block) -> list[Owned]:
        """The wanted lines of a block with their owners, in file order. Raises :class:`Refused` as matchers do."""
        if not all(one.possible(block.data) for one in self._matchers):
            return []
        if self.level is not None and not self._may_tell(block):
            return []
        lines = block.lines()
        places = self._matching(lines)
        if self.level is not None and places:
            least = LEVELS.index(self.level)
            told = list(levels(content, lines))
            places = [place for place in places if LEVELS.index(told[place]) >= least]
        found = self._with_owners(content, lines, places)
        return found if self.rank is None else [(line, owner) for line, owner in found if owner == self.rank]

    def count(self, content: Content, block: Block) -> int:
        """How many lines of the block are wanted."""
        matchers = self._matchers
        if self.rank is not None or self.level is not None:
            return len(self.select(content, block))
        if len(matchers) == 1 and block.long is None:
            quickly = matchers[0].count(block.data)
            if quickly is not None:
                return quickly
        if not all(one.possible(block.data) for one in matchers):
            return 0
        return len(self._matching(block.lines()))

    def owned(self, content: Content, lines: Sequence[RawLine]) -> Iterator[Owned]:
        """Lines that follow each other, with their owners."""
        owner: str | None = None
        for position, line in enumerate(lines):
            own = self._owner(line)
            if own is not None:
                owner = own
            elif position == 0:
                owner = self._owner_before(content, line.start)
            yield line, owner

    def _matching(self, lines: Sequence[RawLine]) -> list[int]:
        places = list(range(len(lines)))
        for matcher in self._matchers:
            found = matcher.matching([plain(lines[place].searched) for place in places])
            places = list(itertools.compress(places, found))
        return places

    def _with_owners(self, content: Content, lines: Sequence[RawLine], places: Sequence[int]) -> list[Owned]:
        if len(places) > FEW:
            owned = list(self.owned(content, lines))
            return [owned[place] for place in places]
        return [(lines[place], self._owner_at(content, lines, place)) for place in places]

    def _owner_at(self, content: Content, lines: Sequence[RawLine], place: int) -> str | None:
        for line in reversed(lines[: place + 1]):
            owner = self._owner(line)
            if owner is not None:
                return owner
        return self._owner_before(content, lines[0].start)

    def _owner(self, line: RawLine) -> str | None:
        if b"\r" not in line.head and not line.tail:
            return self.owner_of(line.head)
        shown, _ = line.shown
        return self.owner_of(shown) or self.owner_of(line.head)

    def _owner_before(self, content: Content, offset: int) -> str | None:
        for block in itertools.islice(backward(content, offset), OWNER_BLOCKS):
            for line in reversed(block.lines()):
                owner = self._owner(line)
                if owner is not None:
                    return owner
        return None

    def _may_tell(self, block: Block) -> bool:
        """Whether a line of the block can have the wanted level; one that goes on with an earlier record always can."""
        assert self.level is not None
        first = block.data[: block.data.find(b"\n") + 1] or block.data
        return may_tell(block.data, self.level) or level_of(first.rstrip(b"\n")) is None


def levels(content: Content, lines: Sequence[RawLine]) -> Iterator[str]:
    """The level of each of these lines. Where they do not follow each other the record before is looked up."""
    level, came_to = "info", -1
    for line in lines:
        shown, _ = line.shown
        own = level_of(shown)
        if own is None and line.start != came_to:
            level = _level_before(content, line.start)
        level = inherited(level, shown) if own is None else own
        came_to = line.end
        yield level


def _level_before(content: Content, offset: int) -> str:
    """The level of the line that ends at ``offset``."""
    low = max(content.floor, offset - LEVEL_BACK)
    before = content.read_at(low, offset - low).split(b"\n")[:-1]
    for back in range(len(before) - 1, -1, -1):
        level = level_of(before[back])
        if level is not None:
            for line in before[back + 1 :]:
                level = inherited(level, line)
            return level
    return "info"
