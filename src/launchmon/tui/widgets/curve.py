"""The recent past of a value as one row of small bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from launchmon.format import sparkline
from launchmon.tui.widgets.lines import Span

ROOMY = 84
"""Cells across a table from which its further curves are worth their room: in a narrower one, numbers are."""


def curve(values: Sequence[float | None], width: int, top: float | None) -> Span:
    """The newest ``width`` values, from 0 to ``top`` or to the highest of them, whichever is more.

    Muted where nothing moves off the ground: a colour is for what there is. It is a quiet one: a table full of busy
    ranks is no news beside the verdict.
    """
    shown = list(values[-width:]) if width else []
    most = max([top or 0.0, *(value for value in shown if value is not None)], default=0.0)
    if not width or most <= 0:
        return " " * width, "muted"
    marks = sparkline(shown, width, most)
    return marks, "curve" if marks.strip(" ▁") else "muted"
