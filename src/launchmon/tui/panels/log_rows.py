"""Rows of the log as toned text: gutter, prefix, errors and search hits. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rich.cells import cell_len, set_cell_size

from launchmon.tui.log_buffer import ScreenRow
from launchmon.tui.widgets.lines import Row, Span

GUTTER = 2
"""Cells in front of each line for its mark."""

MARKS = {"fatal": ("✗", "bad"), "error": ("✗", "bad"), "consequence": ("·", "muted"), "warning": ("!", "warn")}
"""Severity of an error → its mark and tone."""

_PREFIX = re.compile(r"\[[^\]\n]{1,60}\] ?")
"""SGLang's own prefix, ``[2025-11-29 18:00:01 TP0]``: it is the same on every line, so it is muted."""


def matcher(text: str) -> re.Pattern[str]:
    """What to colour as a hit of a search for this text. Capitals count only in a text that has some.

    Not for expressions: one can take years on thirty characters, and would hold up the screen all the while.
    """
    return re.compile(re.escape(text), re.IGNORECASE if text == text.lower() else 0)


def log_row(
    row: ScreenRow, width: int, severities: Mapping[int, str], current: int | None, hits: re.Pattern[str] | None
) -> Row:
    """One row. ``severities`` maps offsets of error lines; ``current`` is the line a search or jump arrived at."""
    severity = severities.get(row.line.offset)
    mark, tone = MARKS.get(severity or "", (" ", "plain"))
    if row.line.offset == current:
        mark = "▶"
        tone = tone if severity else "key"
    body_tone = "bad" if severity in ("fatal", "error") else "warn" if severity == "warning" else "plain"
    room = max(1, width - GUTTER)
    text = row.text
    if cell_len(text) > room or row.more:
        text = set_cell_size(text, min(room - 1, cell_len(text))).rstrip() + "…"
    gutter: Span = (f"{mark if row.first else ' '} ", tone)
    return (gutter, *_body(text, body_tone, row.first, hits))


def _body(text: str, tone: str, first: bool, hits: re.Pattern[str] | None) -> list[Span]:
    prefix = _PREFIX.match(text) if first else None
    bounds = 0 if prefix is None else prefix.end()
    base: list[Span] = [(text[:bounds], "muted"), (text[bounds:], tone)] if bounds else [(text, tone)]
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
