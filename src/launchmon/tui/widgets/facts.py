"""Text as wrapped rows: a paragraph, a fact with its label in a column of its own, a refusal. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from launchmon.format import fit, one_line, wrap
from launchmon.tui.widgets.lines import Row
from launchmon_agent.errors import Refused

LABEL = 11
"""Cells of the label in front of a fact: ``ruled out``."""


def paragraph(text: str, width: int, tone: str = "plain") -> list[Row]:
    return [((line, tone),) for line in wrap(one_line(text), width)]


def fact(label: str, text: str, width: int, tone: str = "plain", label_tone: str = "muted") -> list[Row]:
    """``ruled out  crash: 8/8 alive``, its further lines under the first; nothing where there is no text."""
    text = one_line(text)
    if not text:
        return []
    lines = wrap(text, max(10, width - LABEL))
    return [((fit(label if place == 0 else "", LABEL), label_tone), (line, tone)) for place, line in enumerate(lines)]


def refusal_rows(refusal: Refused, width: int) -> list[Row]:
    """What happened, the likely cause, and what helps."""
    rows = paragraph(f"✗ {refusal.what}", width, "bad")
    for label, text in (("cause", refusal.cause), ("try", refusal.try_)):
        if text:
            rows += paragraph(f"{label}: {text}", width)
    return rows


def indented(rows: Iterable[Row]) -> list[Row]:
    """One cell further right."""
    return [((" ", "plain"), *row) if row else () for row in rows]
