"""Aligned columns that leave, least important first, when the room does not suffice. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launchmon.format import fit
from launchmon.tui.widgets.lines import Row, Span

GAPS = (2, 1)
"""Cells between columns: narrower before a column has to leave."""

Cell = Span | Row
"""Toned text that is fitted to its column, or spans that together have exactly the column's width."""


@dataclass(frozen=True)
class Column:
    """A column of ``width`` cells that may grow to ``most``; where not all fit, the highest ``rank`` goes first."""

    name: str
    title: str
    width: int
    rank: int = 0  # 0: never leaves
    align: str = "left"
    most: int = 0
    grows: int = 1  # share of the spare room


@dataclass(frozen=True)
class Layout:
    """The columns that are shown, each with its final width."""

    columns: tuple[tuple[Column, int], ...]
    gap: int = GAPS[0]

    def heading(self) -> Row:
        return self.row({column.name: (column.title, "title") for column, _ in self.columns})

    def width_of(self, name: str) -> int:
        """Cells of a column; 0 where it is not shown."""
        return next((width for column, width in self.columns if column.name == name), 0)

    def row(self, cells: Mapping[str, Cell]) -> Row:
        """``cells`` by the names of their columns; blank where there is none."""
        out: list[Span] = [(" ", "plain")]
        for place, (column, width) in enumerate(self.columns):
            if place:
                out.append((" " * self.gap, "plain"))
            cell = cells.get(column.name, ("", "plain"))
            if isinstance(cell[0], str):
                text, tone = cell
                out.append((fit(text, width, column.align), tone))
            else:
                out += cell
        return tuple(out)


def lay_out(columns: Sequence[Column], width: int) -> Layout:
    """Choose columns for ``width`` cells and give the spare room to those that can grow."""
    shown = list(columns)
    gap = next((gap for gap in GAPS if _needed(shown, gap) <= width), GAPS[-1])
    while _needed(shown, gap) > width:
        last = max(shown, key=lambda column: column.rank)
        if last.rank == 0:
            break
        shown.remove(last)
    widths = {column.name: column.width for column in shown}
    spare = width - _needed(shown, gap)
    while spare > 0:
        growing = [column for column in shown if widths[column.name] < column.most]
        if not growing:
            break
        for column in growing:
            more = min(column.grows, spare, column.most - widths[column.name])
            widths[column.name] += more
            spare -= more
    return Layout(tuple((column, widths[column.name]) for column in shown), gap)


def _needed(columns: Sequence[Column], gap: int) -> int:
    return 1 + sum(column.width for column in columns) + gap * (len(columns) - 1)
