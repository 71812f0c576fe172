"""Rows of the log as toned text: gutter, prefix, errors and search hits. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size

from launchmon.session_like import LineLike
from launchmon.tui.log_buffer import ScreenRow
from launchmon.tui.log_fold import PREFIX
from launchmon.tui.widgets.lines import Row, Span

GUTTER = 2
"""Cells in front of each line for its mark."""

MARKS = {"fatal": ("✗", "bad"), "error": ("✗", "bad"), "consequence": ("·", "muted"), "warning": ("!", "warn")}
"""Severity of an error → its mark and tone."""

CONTINUED = {"error": ("│", "bad"), "warning": ("│", "warn")}
"""Level of a line that goes on with a record → the mark that joins it to the record's first line."""

LEVELS = {"error": ("✗", "bad"), "warning": ("!", "warn")}
"""Level of a record that is no error of the model → its mark and tone."""

BOOKMARK = ("◆", "data")
POINTER = "▶"


@dataclass(frozen=True)
class Marks:
    """What is marked: ``severities`` of errors by the offset of their line, the line pointed at, bookmarks, hits."""

    severities: Mapping[int, str] = field(default_factory=dict)
    current: int | None = None
    bookmarks: frozenset[int] = frozenset()
    hits: re.Pattern[str] | None = None


def matcher(text: str) -> re.Pattern[str]:
    """What to colour as a hit of a search for this text. Capitals count only in a text that has some.

    Not for expressions: one can take years on thirty characters, and would hold up the screen all the while.
    """
    return re.compile(re.escape(text), re.IGNORECASE if text == text.lower() else 0)


def log_row(row: ScreenRow, width: int, marks: Marks) -> Row:
    """One row of the log, its mark in front."""
    line = row.line
    severity = marks.severities.get(line.offset)
    first = severity is not None or PREFIX.match(line.text) is not None or _warns(line)
    mark, tone = MARKS.get(severity or "") or (LEVELS if first else CONTINUED).get(line.level, (" ", "plain"))
    if any(row.shown.holds(offset) for offset in marks.bookmarks):
        mark, tone = BOOKMARK
    if row.shown.holds(marks.current):
        mark, tone = POINTER, tone if severity else "key"
    if not row.first and mark != "│":
        mark = " "
    body_tone = "bad" if severity in ("fatal", "error") else "warn" if severity == "warning" else "plain"
    if severity is None and first:
        body_tone = {"error": "bad", "warning": "warn"}.get(line.level, body_tone)
    room = max(1, width - GUTTER)
    text = row.text
    if cell_len(text) > room or row.more:
        text = set_cell_size(text, min(room - 1, cell_len(text))).rstrip() + "…"
    gutter: Span = (f"{mark} ", tone)
    return (gutter, *_body(text, body_tone, row, marks.hits))


def _warns(line: LineLike) -> bool:
    """Whether it begins a warning of Python's, which has no prefix; what goes on with one is indented."""
    return line.level == "warning" and not line.text[:1].isspace()


def _body(text: str, tone: str, row: ScreenRow, hits: re.Pattern[str] | None) -> list[Span]:
    base: list[Span] = []
    prefix = PREFIX.match(text) if row.first else None
    if prefix is not None:
        base.append((prefix.group(), "muted"))
        text = text[prefix.end() :]
    times = f"×{row.shown.times} "
    if row.first and row.shown.times > 1 and text.startswith(times):
        base.append((times, "strong"))
        text = text[len(times) :]
    base.append((text, tone))
    if hits is None:
        return base
    out: list[Span] = []
    for part, part_tone in base:
        at = 0
        for hit in hits.finditer(part):
            if hit.end() == hit.start():
                continue
            out += [(part[at : hit.start()], part_tone), (hit.group(), "hit")]
            at = hit.end()
        out.append((part[at:], part_tone))
    return [span for span in out if span[0]]
