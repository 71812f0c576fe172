"""Text as wrapped rows: a paragraph, or a fact with its label in a column of its own. Pure."""

from __future__ import annotations

from launchmon.format import fit, one_line, wrap
from launchmon.tui.widgets.lines import Row

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
