"""Reads the data tables beside this module: one row a line, columns separated by `` | ``, the regex last. Pure.

``marks.table`` describes the columns. The text comes through the package's own loader, so a package that was imported
from a zip archive has its tables too.
"""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass

RANK, LAUNCHER_LINE = "rank", "launcher"
"""Whose line a row describes: a scheduler's, the launcher's. Of the third kind, ``any``, it is whose tag it has."""


class TableError(ValueError):
    """A row of a data table cannot be read. The message names the table and the line."""


@dataclass(frozen=True)
class MarkRow:
    id: str
    what: str  # begin | end | info | skip
    phase: str | None
    since: str
    until: str | None
    who: str
    serving: bytes | None  # by which the line is found in the log of a serving run
    anchors: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


@dataclass(frozen=True)
class ErrorRow:
    id: str
    severity: str  # benign | warning | consequence | error | fatal
    since: str
    until: str | None
    who: str
    serving: bytes | None
    anchors: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


@dataclass(frozen=True)
class CauseRow:
    id: str
    severity: str | None  # None leaves the severity of the line that opened the traceback
    anchors: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


@dataclass(frozen=True)
class BarRow:
    phase: str | None
    since: str
    until: str | None
    anchors: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


@functools.cache
def mark_rows() -> tuple[MarkRow, ...]:
    return tuple(
        MarkRow(id_, what, _none(phase), since, _none(until), who, _literal(serving), _anchors(anchor), _compile(regex))
        for id_, what, phase, since, until, who, serving, anchor, regex in rows("marks.table", 9)
    )


@functools.cache
def error_rows() -> tuple[ErrorRow, ...]:
    return tuple(
        ErrorRow(id_, severity, since, _none(until), who, _literal(serving), _anchors(anchor), _compile(regex))
        for id_, severity, since, until, who, serving, anchor, regex in rows("errors.table", 8)
    )


@functools.cache
def cause_rows() -> tuple[CauseRow, ...]:
    return tuple(
        CauseRow(id_, _none(severity), _anchors(anchor), _compile(regex))
        for id_, severity, anchor, regex in rows("causes.table", 4)
    )


@functools.cache
def bar_rows() -> tuple[BarRow, ...]:
    return tuple(
        BarRow(_none(phase), since, _none(until), _anchors(anchor), _compile(regex))
        for phase, since, until, anchor, regex in rows("bars.table", 5)
    )


@functools.cache
def releases() -> tuple[str, ...]:
    """The releases the tables know by name, oldest first."""
    return tuple(line for _, line in _lines("releases.table"))


def cause_of(last_line: str) -> CauseRow | None:
    """What the last line of a traceback says about the failure; None where no row knows it."""
    line = last_line.encode("utf-8", "replace")
    for row in cause_rows():
        if row.pattern.search(line):
            return row
    return None


def rows(table: str, columns: int) -> Iterator[list[str]]:
    """The cells of each row. The last cell keeps every further separator. Raises :class:`TableError`."""
    for number, line in _lines(table):
        cells = [cell.strip() for cell in line.split(" | ", columns - 1)]
        if len(cells) != columns or not all(cells):
            raise TableError(f"{table}:{number}: {len(cells)} columns, not {columns}, or an empty one")
        try:
            re.compile(cells[-1].encode())
        except re.error as error:
            raise TableError(f"{table}:{number}: {error}") from None
        yield cells


def _lines(table: str) -> Iterator[tuple[int, str]]:
    data = pkgutil.get_data(__package__ or "launchmon_agent.sglang", table)
    if data is None:
        raise TableError(f"{table}: not in the package")
    for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def _none(cell: str) -> str | None:
    return None if cell == "-" else cell


def _literal(cell: str) -> bytes | None:
    return None if cell == "-" else cell.encode()


def _anchors(cell: str) -> tuple[bytes, ...]:
    return tuple(part.strip().encode() for part in cell.split(" || "))


def _compile(regex: str) -> re.Pattern[bytes]:
    return re.compile(regex.encode())
