"""Identical lines of several ranks as one: the same text but for time and tag, near each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from launchmon.session_like import LineLike
from launchmon_agent.events import LAUNCHER

NEAR = 64
"""Records between the first of a group and one that still joins it: eight ranks that say eight things at once."""

PREFIX = re.compile(r"\[[^\]\n]{1,60}\] ?")
"""SGLang's own prefix, ``[2025-11-29 18:00:01 TP0]``: it differs from rank to rank, what follows is compared."""


@dataclass(frozen=True)
class Shown:
    """A line that is shown, and the lines of other ranks that it stands for."""

    line: LineLike
    others: tuple[LineLike, ...] = ()

    @property
    def times(self) -> int:
        return 1 + len(self.others)

    def holds(self, offset: int | None) -> bool:
        """Whether it is, or stands for, the line that begins there."""
        return offset is not None and (self.line.offset == offset or any(one.offset == offset for one in self.others))


def unfolded(lines: Sequence[LineLike]) -> list[Shown]:
    return [Shown(line) for line in lines]


def folded(lines: Sequence[LineLike]) -> list[Shown]:
    """Records of several lines (tracebacks) are folded as a whole, line by line."""
    groups: list[list[Sequence[LineLike]]] = []
    latest: dict[tuple[str, ...], int] = {}
    for record in _records(lines):
        key = _key(record)
        place = latest.get(key) if key else None
        if place is not None and len(groups) - place <= NEAR and _is_new(record, groups[place]):
            groups[place].append(record)
            continue
        if key:
            latest[key] = len(groups)
        groups.append([record])
    return [
        Shown(line, tuple(other[position] for other in others))
        for first, *others in groups
        for position, line in enumerate(first)
    ]


def _records(lines: Sequence[LineLike]) -> list[list[LineLike]]:
    """Lines with those that continue them: indented, or of the same traceback."""
    records: list[list[LineLike]] = []
    for line in lines:
        if records and PREFIX.match(line.text) is None and _goes_on(line, records[-1][0]):
            records[-1].append(line)
        else:
            records.append([line])
    return records


def _goes_on(line: LineLike, first: LineLike) -> bool:
    return line.rank == first.rank and (line.text[:1].isspace() or line.level == first.level == "error")


def _key(record: Sequence[LineLike]) -> tuple[str, ...]:
    """What must be equal; empty for a record that is never folded: that of the launcher, and an empty line."""
    first = record[0]
    prefix = PREFIX.match(first.text)
    if prefix is not None and first.rank in (None, LAUNCHER):
        return ()
    text = first.text if prefix is None else first.text[prefix.end() :]
    return (text, *(line.text for line in record[1:])) if text.strip() else ()


def _is_new(record: Sequence[LineLike], group: Sequence[Sequence[LineLike]]) -> bool:
    """Of a rank that is not in the group yet. Whose a line without a prefix is, nobody knows."""
    return PREFIX.match(record[0].text) is None or all(record[0].rank != other[0].rank for other in group)
