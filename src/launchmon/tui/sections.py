"""A list of items below the titles of their sections, as rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from launchmon.tui.widgets.lines import Row


class InSection(Protocol):
    @property
    def section(self) -> str: ...


T = TypeVar("T", bound=InSection)

NO_ITEM = -1


def section_rows(
    items: Sequence[T],
    selected: int,
    titles: Mapping[str, tuple[str, str]],
    rows_of: Callable[[T, bool], list[Row]],
) -> tuple[list[Row], range | None, list[int]]:
    """The rows, which of them are the selected item's, and of which item each row is (:data:`NO_ITEM`: of none).

    ``items`` lie together by section; ``titles``: section → title and words beside it; ``rows_of`` is told whether the
    item is selected.
    """
    rows: list[Row] = []
    owners: list[int] = []
    where: range | None = None
    section = ""
    for place, item in enumerate(items):
        if item.section != section:
            section = item.section
            title, words = titles[section]
            rows += [()] if rows else []
            rows.append(((" ", "plain"), (title, "title"), (f"  {words}", "muted")))
            owners += [NO_ITEM] * (len(rows) - len(owners))
        begin = len(rows)
        rows += rows_of(item, place == selected)
        owners += [place] * (len(rows) - begin)
        if place == selected:
            # With its heading, where it is the first of its section: else the list could not show it again.
            where = range(begin - 1 if begin and owners[begin - 1] == NO_ITEM else begin, len(rows))
    return rows, where, owners
