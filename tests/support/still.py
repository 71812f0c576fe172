"""The screen at one moment: its characters, the looks of each, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, groupby
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widget import Widget

from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.widgets.lines import Lines, row_width

Run = tuple[str, str]
"""Text and its looks, in words: ``bold #e0e0e0 on #121212``."""


@dataclass(frozen=True)
class Still:
    """What is painted, row by row, each as runs of the same looks."""

    width: int
    rows: tuple[tuple[Run, ...], ...]

    @property
    def lines(self) -> list[str]:
        """The characters alone, without the spaces at the end of a row."""
        return ["".join(text for text, _ in row).rstrip() for row in self.rows]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def take(app: App[Any]) -> Still:
    """What the app shows now."""
    strips = app.screen._compositor.render_strips()
    rows = [[(segment.text, _looks(segment.style)) for segment in strip if segment.text] for strip in strips]
    return Still(app.size.width, tuple(tuple(_merged(row)) for row in rows))


def _merged(row: list[Run]) -> Iterator[Run]:
    for looks, runs in groupby(row, key=lambda run: run[1]):
        yield "".join(text for text, _ in runs), looks


@lru_cache(maxsize=10_000)
def _looks(style: Style | None) -> str:
    style = style or Style()
    words = [word for word in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, word)]
    front, behind = (
        None if color is None else Color.from_rich_color(color).hex6.lower() for color in (style.color, style.bgcolor)
    )
    return " ".join([*words, front or "default", "on", behind or "default"])


# --------------------------------------------------------------------------------------------------------------- faults


def faults(app: App[Any]) -> list[str]:
    """Everything that does not fit: rows of another width than the screen, text that its widget cuts, overlaps."""
    still, screen = take(app), app.screen
    found = []
    if len(still.rows) != app.size.height:
        found.append(f"{len(still.rows)} rows on a screen of {app.size.height}")
    for number, row in enumerate(still.rows):
        cells = sum(cell_len(text) for text, _ in row)
        if cells != still.width:
            found.append(f"row {number} has {cells} cells on a screen of {still.width}")
    shown = [widget for widget in _seen(screen) if isinstance(widget, Lines)]
    for widget in shown:
        found += _cut(widget)
    found += [f"{a.id} and {b.id} overlap" for a, b in combinations(shown, 2) if _overlap(a, b)]
    for footer in screen.query(FooterBar):
        found += _footer(footer, still)
    return found


def _seen(screen: Screen[Any]) -> Iterator[Widget]:
    for widget in screen.query(Widget):
        if widget.display and widget.visible and widget.region and all(node.display for node in widget.ancestors):
            yield widget


def _cut(widget: Lines) -> Iterator[str]:
    """Rows are made for the width of their widget: where one is wider, the terminal would cut it anywhere."""
    room = widget.content_region
    for row in widget.rows:
        if row_width(row) > room.width:
            text = "".join(text for text, _ in row)
            yield f"{widget.id}: {row_width(row)} cells in a widget of {room.width}: {text!r}"
    scrolls = any(isinstance(node, VerticalScroll) for node in widget.ancestors)
    if len(widget.rows) > room.height and not scrolls:
        yield f"{widget.id}: {len(widget.rows)} rows in a widget of {room.height}"


def _overlap(one: Lines, other: Lines) -> bool:
    nested = one in other.ancestors or other in one.ancestors
    return not nested and bool(one.region.intersection(other.region))


def _footer(footer: FooterBar, still: Still) -> Iterator[str]:
    line = still.lines[footer.region.y]
    for word in ("? help", "q detach"):
        if word not in line:
            yield f"the footer lacks {word!r}: {line!r}"
