"""A list longer than its room: a head that stays, a body that scrolls, and a word on which part of it is seen."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Size
from textual.message import Message

from launchmon.tui.widgets.lines import Lines, Row, overlaid, pointed

WHEEL = 3
"""Rows that a turn of the wheel moves."""


class Pager(Lines, can_focus=True):
    """Shows rows given to :meth:`fill`. As high as they need, where its CSS lets it, else as high as it may be."""

    class Clicked(Message):
        """A row of the body was clicked; ``row`` counts from its beginning."""

        def __init__(self, pager: Pager, row: int) -> None:
            super().__init__()
            self.pager = pager
            self.row = row

        @property
        def control(self) -> Pager:
            return self.pager

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._head: tuple[Row, ...] = ()
        self._body: tuple[Row, ...] = ()
        self._top = 0
        self._selected: range | None = None

    def fill(self, head: Sequence[Row], body: Sequence[Row], selected: range | None = None) -> None:
        """Show these rows. The rows ``selected`` of the body are brought into sight when they have changed."""
        grown = len(head) + len(body) != len(self._head) + len(self._body)
        moved = selected != self._selected
        self._head, self._body, self._selected = tuple(head), tuple(body), selected
        if grown:
            self.refresh(layout=True)
        self._paint(reveal=moved)

    @property
    def body(self) -> tuple[Row, ...]:
        """All rows of the body, also those out of sight."""
        return self._body

    @property
    def room(self) -> int:
        """Rows of the body that can be seen at once."""
        return max(1, self.size.height - len(self._head))

    def scroll_rows(self, rows: int) -> None:
        self._top += rows
        self._paint()

    def scroll_pages(self, pages: int) -> None:
        self.scroll_rows(pages * max(1, self.room - 1))

    def to_start(self) -> None:
        self._top = 0
        self._paint()

    def to_end(self) -> None:
        self._top = len(self._body)
        self._paint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return max(1, len(self._head) + len(self._body))

    def _paint(self, reveal: bool = False) -> None:
        width, room = self.size.width, self.room
        if not width:
            return
        if reveal and self._selected is not None:
            self._top = max(min(self._top, self._selected.start), self._selected.stop - room)
        self._top = max(0, min(self._top, len(self._body) - room))
        shown = self._body[self._top : self._top + room]
        head = list(self._head)
        if head and len(self._body) > room:
            part = f"{self._top + 1}–{self._top + len(shown)} of {len(self._body)} ▾ "
            head[0] = overlaid(head[0], ((part, "muted"),), width)
        if head:
            head[0] = pointed(head[0], self.has_focus)
        self.show([*head, *shown])

    # ----------------------------------------------------------------------------------------------------------- events

    def on_resize(self, _: events.Resize) -> None:
        self._paint(reveal=True)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._paint()

    def on_click(self, event: events.Click) -> None:
        row = event.y - len(self._head) + self._top
        if event.y >= len(self._head) and row < len(self._body):
            self.post_message(self.Clicked(self, row))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-WHEEL)
