"""A panel: a title, a body that scrolls where it does not fit, and a failure that is shown instead of hidden."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events

from launchmon.format import age, one_line, wrap
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Lines, Row, overlaid, pointed

logger = logging.getLogger("launchmon.tui")


@dataclass(frozen=True)
class Content:
    """What a panel shows: ``head`` always, of ``body`` as much as there is room for, then ``tail`` if room is left."""

    head: tuple[Row, ...] = ()
    body: tuple[Row, ...] = ()
    tail: tuple[Row, ...] = ()


def dated(title: Row, view: View, width: int) -> Row:
    """The title of a panel, with the age of what it shows where the link is gone."""
    if not view.stale:
        return title
    return overlaid(title, ((f"as of {age(view.age)} ago ", "warn"),), width)


@dataclass(frozen=True)
class Space:
    """The room for a panel's content: ``width`` cells, ``limit`` rows that can be seen at once."""

    width: int
    limit: int


class Panel(Lines):
    """Draws a :class:`View` through :meth:`content`. Its height limit is the ``max-height`` of its CSS."""

    HELP: ClassVar[str] = ""
    """What this panel shows and how to read it, for the help screen."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._view: View | None = None
        self._top = 0
        self._failure = ""

    def content(self, view: View, space: Space) -> Content:
        """The rows. Pure: reads nothing but its arguments."""
        raise NotImplementedError

    def look(self, view: View) -> None:
        """Show this state. A failure in here is logged and shown in the panel; the others go on."""
        self._view = view
        width = self.size.width
        if width == 0:
            return
        try:
            content = self.content(view, Space(width, self.limit))
        except Exception as error:
            if repr(error) != self._failure:  # once, not every second
                logger.exception("the %s panel failed", self.id)
            self._failure = repr(error)
            message = f"✗ this panel failed ({type(error).__name__}: {error}). The rest goes on."
            self.show([((line, "bad"),) for line in wrap(one_line(message), width)[: self.limit]])
            return
        self._failure = ""
        self.show(self._fitted(content, width))

    def _fitted(self, content: Content, width: int) -> list[Row]:
        everything = (*content.body, *content.tail)
        room = max(0, self.limit - len(content.head))
        self._top = max(0, min(self._top, len(everything) - room))
        shown = everything[self._top : self._top + room]
        hidden = len(content.body) - room
        part = f"{self._top + 1}–{min(self._top + room, len(everything))} of {len(everything)} ▾" if hidden > 0 else ""
        head = self.marked(content.head, part, width)
        return [*(pointed(row, self.has_focus and not place) for place, row in enumerate(head)), *shown]

    def marked(self, head: Sequence[Row], part: str, width: int) -> list[Row]:
        """The head, with a word on which ``part`` of the body is shown where that is not all of it."""
        if not head or not part:
            return list(head)
        return [overlaid(head[0], ((f"{part} ", "muted"),), width), *head[1:]]

    @property
    def limit(self) -> int:
        """Rows of content that can be seen."""
        most = self.styles.max_height
        if most is not None and most.cells is not None:
            return max(1, most.cells - self.gutter.height)
        return max(1, self.size.height)

    def scroll_by(self, rows: int) -> None:
        self._top = max(0, self._top + rows)
        self._look_again()

    def on_resize(self, _: events.Resize) -> None:
        self._look_again()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._look_again()

    def _look_again(self) -> None:
        if self._view is not None:
            self.look(self._view)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_by(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_by(-1)
