"""The time line of a recording: what happened when, as marks on one row, and where on it the screen stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual import events

from launchmon.format import clip, clock
from launchmon.replay.moments import Moment
from launchmon.replay.session import ReplaySession
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Row, Span, row_width
from launchmon.tui.widgets.panel import Content, Panel, Space

MARKS: dict[str, tuple[int, str, str]] = {
    # kind: importance where several fall on one cell, glyph, tone
    "trouble": (7, "✗", "bad"),
    "error": (6, "!", "bad"),
    "exit": (5, "■", "warn"),
    "verdict": (4, "◆", "good"),
    "dump": (3, "▼", "data"),
    "action": (2, "►", "key"),
    "phase": (1, "┼", "plain"),
}
_FEWEST = 10
"""Cells below which a mark is not told in words."""

HERE, PAST, AHEAD = "█", "━", "─"


class Timeline(Panel):
    HELP = (
        "The recording from its beginning to its end, and where the screen stands in it (█). Marks: ┼ a phase begins, "
        "◆ a verdict, ✗ a verdict that names trouble, ▼ stacks, ! an error, ■ a process ended, ► somebody did "
        "something. Below: the mark passed last, and the next one. A click moves there."
    )
    DEFAULT_CSS = """
    Timeline { height: auto; max-height: 2; }
    """

    def __init__(self, session: ReplaySession, go: Callable[[float], None], *, id: str) -> None:  # noqa: A002
        """``go`` is called with the time that was clicked at."""
        super().__init__(id=id)
        self._session = session
        self._go = go
        self._left = 0
        self._cells = 1

    def content(self, view: View, space: Space) -> Content:  # noqa: ARG002  (the recording knows its own time)
        session = self._session
        begin, end = session.recorded.begin, session.recorded.end
        head: Row = ((f" {state(session)} ", "key"),)
        tail: Row = ((f" {clock(session.time - begin)} of {clock(end - begin)} ", "plain"),)
        self._left = row_width(head)
        self._cells = max(1, space.width - self._left - row_width(tail))
        line = track(session.moments, begin, end, session.time, self._cells)
        rows = [(*head, *line, *tail), said(session.moments, session.position, begin, space.width)]
        return Content(head=tuple(rows[: max(1, space.limit)]))

    def on_click(self, event: events.Click) -> None:
        place = event.x - self._left
        if event.y == 0 and 0 <= place < self._cells:
            recorded = self._session.recorded
            self._go(recorded.begin + (recorded.end - recorded.begin) * place / max(1, self._cells - 1))


def state(session: ReplaySession) -> str:
    """``▶ ×4 18:05:41``."""
    how = f"▶ ×{session.speed}" if session.playing else f"‖ ×{session.speed}"
    return f"{how} {time.strftime('%H:%M:%S', time.localtime(session.time))}"


def track(moments: Sequence[Moment], begin: float, end: float, now: float, cells: int) -> Row:
    """The line itself, ``cells`` wide."""
    here = _cell(now, begin, end, cells)
    spans: list[Span] = [(PAST, "data") if place <= here else (AHEAD, "muted") for place in range(cells)]
    seen: dict[int, int] = {}
    for moment in moments:
        place = _cell(moment.at, begin, end, cells)
        importance, glyph, tone = MARKS[moment.kind]
        if importance > seen.get(place, 0):
            seen[place] = importance
            spans[place] = (glyph, tone)
    spans[here] = (HERE, "key")
    return tuple(spans)


def said(moments: Sequence[Moment], position: int, begin: float, width: int) -> Row:
    """The mark passed last and the next one, in words."""
    last = next((one for one in reversed(moments) if one.position <= position), None)
    following = next((one for one in moments if one.position > position), None)
    row: list[Span] = [(" ", "plain")]
    for moment, arrow in ((last, "["), (following, "]")):
        room = width - row_width(row) - 6
        if moment is None or room < _FEWEST:
            continue
        if arrow == "[" and following is not None:
            room = max(_FEWEST, room // 2)
        _, glyph, tone = MARKS[moment.kind]
        words = clip(f"{clock(moment.at - begin)} {moment.text}", room)
        row += [(f"{arrow} ", "key"), (f"{glyph} ", tone), (f"{words}  ", "plain")]
    return tuple(row)


def _cell(at: float, begin: float, end: float, cells: int) -> int:
    share = (at - begin) / (end - begin) if end > begin else 1.0
    return max(0, min(round(share * (cells - 1)), cells - 1))
