"""Identical lines of several ranks as one: the same text but for time and tag, near each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from launchmon.tui.protocol import LineLike
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


def _records(lines: Sequence[LineLike]) -> list[Sequence[LineLike]]:
    """Lines with those that continue them: without a prefix, and of the same rank."""
    records: list[list[LineLike]] = []
    for line in lines:
        if records and PREFIX.match(line.text) is None and _ranked(line) and records[-1][0].rank == line.rank:
            records[-1].append(line)
        else:
            records.append([line])
    return list(records)


def _key(record: Sequence[LineLike]) -> tuple[str, ...]:
    """What must be equal; empty for a record that is never folded."""
    first = record[0]
    prefix = PREFIX.match(first.text)
    if prefix is None or not _ranked(first) or prefix.end() == len(first.text):
        return ()
    return (first.text[prefix.end() :], *(line.text for line in record[1:]))


def _ranked(line: LineLike) -> bool:
    return line.rank is not None and line.rank != LAUNCHER


def _is_new(record: Sequence[LineLike], group: Sequence[Sequence[LineLike]]) -> bool:
    return all(record[0].rank != other[0].rank for other in group)
