"""How serious a line of SGLang's log is: ``error``, ``warning``, ``info`` or ``debug``, mostly by its wording. Pure."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from launchmon_agent.log.rows import Rows
from launchmon_agent.sglang import table
from launchmon_agent.sglang.prefix import Record, records, strip_control

LEVELS = ("debug", "info", "warning", "error")
"""From the least serious on."""

_MATCHED = 4096
"""Bytes of a message that are looked at: what tells a level stands at its beginning."""

_NAMED = re.compile(rb"\] (DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w./-]+:\d+:")
"""The level name that builds of 2026 put behind the stamp (see :mod:`launchmon_agent.sglang.prefix`)."""

_ROUTINE = re.compile(rb"^\[[^\]\n]{8,60}\] (?:(?:Decode|Prefill) batch|INFO:  )[^\n]*(?:\n|\Z)", re.MULTILINE)
"""What a busy server writes, gigabytes in the end; searching it for all literals would take ten times as long."""

_NAMES = {b"DEBUG": "debug", b"INFO": "info", b"WARNING": "warning", b"ERROR": "error", b"CRITICAL": "error"}
_TOLD = ("warning", "error")
"""Levels that a line has only by its wording or name; any other line is at least "info"."""

_SEVERITIES = {"fatal": "error", "error": "error", "consequence": "error", "warning": "warning"}


@dataclass(frozen=True)
class LevelRow:
    level: str
    anchors: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


@functools.cache
def level_rows() -> tuple[LevelRow, ...]:
    return tuple(
        LevelRow(level, tuple(part.strip().encode() for part in anchor.split(" || ")), re.compile(regex.encode()))
        for level, _source, anchor, regex in table.rows("levels.table", 4)
    )


def level_of(line: bytes) -> str | None:
    """The level that the line tells by itself; None for one that goes on with what the line before it said.

    A line with SGLang's prefix, or an empty one, always tells: "info" where nothing else is known.
    """
    line = strip_control(line)
    if not line.strip() or _ROUTINE.match(line):
        return "info"
    named = _NAMED.search(line, 0, 200)
    if named is not None:
        return _NAMES[named[1]]
    rows = level_rows() if _tells(line) else _mere_info()
    found = [_of_record(record, rows) for record in records(line)]
    return max((level for level in found if level is not None), key=LEVELS.index, default=None)


def inherited(level: str, line: bytes) -> str:
    """The level of a line that tells none, behind one of ``level``.

    A traceback goes on until another record or an empty line; of a warning only the indented source line belongs to it.
    """
    if level == "error" or (level == "warning" and line[:1] in (b" ", b"\t")):
        return level
    return "info"


def may_tell(block: bytes, level: str) -> bool:
    """False only when no line of the block tells ``level`` or a more serious one: a quick look."""
    if level not in _TOLD:
        return True
    rest = _ROUTINE.sub(b"", block)
    return any(literal in rest for literal in telling(level))


@functools.cache
def telling(level: str) -> tuple[bytes, ...]:
    """Literals of which every line that tells ``level``, of :data:`_TOLD`, or a more serious one holds one at least."""
    wanted = LEVELS[LEVELS.index(level) :]
    found = {anchor for row in level_rows() if row.level in wanted for anchor in row.anchors}
    for error in table.error_rows():
        if _SEVERITIES.get(error.severity) in wanted:
            found.update(error.anchors)
    found.update(b"] %s " % name for name, named in _NAMES.items() if named in wanted)
    return tuple(sorted(one for one in found if not any(other != one and other in one for other in found)))


def _tells(line: bytes) -> bool:
    return _literals().search(line) is not None


@functools.cache
def _literals() -> re.Pattern[bytes]:
    """All at once is four times as fast as one by one in a line; in a whole block it is the other way round."""
    return re.compile(b"|".join(map(re.escape, telling("warning"))))


@functools.cache
def _mere_info() -> tuple[LevelRow, ...]:
    return tuple(row for row in level_rows() if row.level == "info")


def _of_record(record: Record, rows: tuple[LevelRow, ...]) -> str | None:
    prefixed = record.stamp is not None or record.rank is not None or record.number is not None
    if prefixed and rows is _mere_info():
        return "info"
    text = record.text[:_MATCHED].lstrip() if record.number is not None else record.text[:_MATCHED]
    own = next((row.level for row in rows if _holds(row, text)), None)
    found = _errors().find(text) if rows is not _mere_info() else None
    if found is not None and isinstance(found[0], table.ErrorRow):
        benign = "warning" if own == "warning" else "info"
        return _SEVERITIES.get(found[0].severity, benign)
    return "info" if own is None and prefixed else own


def _holds(row: LevelRow, text: bytes) -> bool:
    return any(anchor in text for anchor in row.anchors) and row.pattern.search(text) is not None


@functools.cache
def _errors() -> Rows:
    return Rows(table.error_rows())
