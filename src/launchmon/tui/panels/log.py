"""The log panel: the whole file where it lies, seen through windows that the session fetches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input

from launchmon.tui import format as fmt
from launchmon.tui.log_reader import LogReader
from launchmon.tui.panels.log_rows import GUTTER, log_row, matcher
from launchmon.tui.protocol import SessionLike, View
from launchmon.tui.widgets.lines import Lines, Row, joined, overlaid, pointed
from launchmon.tui.widgets.panel import dated
from launchmon_agent.events import LAUNCHER

PAN = 16
"""Characters that ← and → move."""


class LogView(Lines, can_focus=True):
    """The lines themselves. Keys and the wheel move over the whole file."""

    HELP: ClassVar[str] = (
        "The server's log, as long as it is: up, down, pages, Home and End go over the whole file, which stays on the "
        "target. At the end it follows what is written. ✗ marks errors (e and E go from one to the next), ▶ the place "
        "a search or a jump arrived at. f or a digit shows one rank only; lines without a rank belong to the launcher."
    )
    DEFAULT_CSS = """
    LogView { height: 1fr; }
    """


class SearchInput(Input):
    """The search prompt. Enter searches, Esc closes, ^R switches between text and regular expression."""

    BINDINGS: ClassVar = [("escape", "close", "close"), ("ctrl+r", "kind", "text or regular expression")]

    class Closed(Message):
        pass

    class Kind(Message):
        """The prompt now takes the other kind of pattern."""

    def __init__(self) -> None:
        super().__init__(id="search", compact=True)
        self.cursor_blink = False
        self.regex = False

    def action_close(self) -> None:
        self.post_message(self.Closed())

    def action_kind(self) -> None:
        self.regex = not self.regex
        self.post_message(self.Kind())


class LogPanel(Vertical):
    """Title, lines and search prompt."""

    DEFAULT_CSS = """
    LogPanel { height: 1fr; min-height: 3; }
    LogPanel #log-title { height: 1; }
    LogPanel:focus-within #log-title > .tone--title { color: $text-accent; }
    LogPanel #search-bar { display: none; height: 1; background: $panel; }
    LogPanel #search-kind { width: auto; background: $panel; }
    LogPanel #search { width: 1fr; background: $panel; }
    LogPanel.-searching #search-bar { display: block; }
    """

    def __init__(self, session: SessionLike) -> None:
        super().__init__(id="log")
        self.reader = LogReader(session, self._paint)
        self._title = Lines(id="log-title")
        self.lines = LogView(id="log-lines")
        self._kind = Lines(id="search-kind")
        self._search = SearchInput()
        self._view: View | None = None
        self._seen: tuple[int, int] | None = None

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.lines
        with Horizontal(id="search-bar"):
            yield self._kind
            yield self._search

    # ---------------------------------------------------------------------------------------------------------- drawing

    def look(self, view: View) -> None:
        """Take in a new state: follow the log where it grew, and date the title."""
        self._view = view
        log = view.model.log
        grown = None if log is None else (log.generation, log.size)
        if grown is not None and grown != self._seen and self.lines.size.width:
            self._seen = grown
            self._do(self.reader.grown, asked=False)
        self._paint()

    def _paint(self) -> None:
        if self._view is None or not self.lines.size.width:
            return
        width, height = self.lines.size
        self._title.show([self._title_row(self._view, width)])
        port = self.reader.viewport
        rows = port.rows()
        if not rows:
            self.lines.show([*([()] * (height - 1)), self._nothing(self._view)][-height:])
            return
        severities = {error.offset: error.severity for error in self._view.model.errors}
        hits = matcher(self.reader.pattern) if self.reader.pattern and not self.reader.regex else None
        drawn: list[Row] = [log_row(row, width, severities, self.reader.current, hits) for row in rows]
        drawn += [()] * (height - len(drawn))
        self.lines.show(drawn)

    def _title_row(self, view: View, width: int) -> Row:
        reader, log = self.reader, view.model.log
        parts: list[Row] = [
            (("follow", "good"),) if reader.viewport.follow else (("held", "warn"),),
            ((f"only {reader.rank}", "warn"),) if reader.rank else (("all ranks", "plain"),),
        ]
        if log is not None:
            parts.append(((_lines(log.lines, log.indexed, log.size), "plain"),))
            if log.grown_at is not None:
                parts.append(((f"last {fmt.duration(view.now - log.grown_at)} ago", "plain"),))
        if view.model.errors:
            parts.append(((f"✗ {fmt.plural(len(view.model.errors), 'error')}", "bad"),))
        if reader.message:
            parts.insert(0, ((reader.message, "warn"),))
        row: Row = ((" ", "plain"), ("LOG", "title"), ("  ", "plain"), *joined(parts))
        if not reader.viewport.follow:
            row = overlaid(row, ((f"{reader.position()} ", "muted"),), width)
        return pointed(dated(row, view, width), self.lines.has_focus)

    def _nothing(self, view: View) -> Row:
        run, log = view.model.run, view.model.log
        if log is not None and log.error:
            return ((f"  ! {fmt.one_line(log.error)}", "warn"),)
        if run is not None and run.log_source == "none":
            return (("  ! no log found for this run: attach with --log PATH or --log-command CMD", "warn"),)
        if self.reader.rank:
            return ((f"  nothing from {self.reader.rank} (f shows the next rank, Esc all)", "muted"),)
        return (("  nothing written yet", "muted"),)

    def begin_anew(self) -> None:
        """The log of another run is to be read from now on."""
        self._seen = None
        self.reader.begin_anew()

    # ---------------------------------------------------------------------------------------------------------- acting

    def scroll_rows(self, rows: int) -> None:
        self.reader.scroll(rows)
        self._do(self.reader.settle)

    def scroll_pages(self, pages: int) -> None:
        self.scroll_rows(pages * max(1, self.lines.size.height - 1))

    def to_start(self) -> None:
        self._do(self.reader.to_start)

    def to_end(self) -> None:
        self._do(self.reader.to_end)

    def pan(self, steps: int) -> None:
        port = self.reader.viewport
        if not port.wrap:
            port.shift = max(0, port.shift + steps * PAN)
            self._paint()

    def toggle_wrap(self) -> None:
        self.reader.viewport.set_wrap(not self.reader.viewport.wrap)
        self._paint()

    def show_rank(self, rank: str | None) -> None:
        """Filter by this rank, or show all."""
        self._do(lambda: self.reader.show_rank(rank))

    def next_rank(self) -> None:
        ranks = [*self._ranks(), LAUNCHER]
        here = self.reader.rank
        place = ranks.index(here) + 1 if here in ranks else 0
        self.show_rank(ranks[place] if place < len(ranks) else None)

    def nth_rank(self, place: int) -> None:
        ranks = self._ranks()
        if place >= len(ranks):
            self.reader.say(f"there is no rank {place}")
            return
        self.show_rank(None if self.reader.rank == ranks[place] else ranks[place])

    def next_error(self, forward: bool) -> None:
        offsets = [] if self._view is None else [error.offset for error in self._view.model.errors]
        self._do(lambda: self.reader.next_of(sorted(set(offsets)), forward, "error"))

    def find_next(self, forward: bool) -> None:
        if not self.reader.pattern:
            self.reader.say("nothing searched yet: / searches")
            return
        self._do(lambda: self.reader.find(forward))

    def ask(self) -> None:
        """Open the search prompt."""
        self.add_class("-searching")
        self._say_kind()
        self._search.focus()

    def leave(self) -> bool:
        """Close what is open, one thing at a time: prompt, search, filter. False when there was nothing."""
        if self.has_class("-searching"):
            self._close()
        elif self.reader.pattern:
            self.reader.forget_search()
        elif self.reader.rank is not None:
            self.show_rank(None)
        else:
            return False
        return True

    def _ranks(self) -> list[str]:
        return [] if self._view is None else [row.rank for row in self._view.model.rank_rows() if row.rank]

    def _close(self) -> None:
        self.remove_class("-searching")
        self.lines.focus()

    def _do(self, work: Callable[[], Awaitable[None]], asked: bool = True) -> None:
        # Failures of a request are said in the title; anything else must end the worker, not the screen.
        self.run_worker(self.reader.guarded(work, asked), group="log", exit_on_error=False)

    # ----------------------------------------------------------------------------------------------------------- events

    def on_search_input_closed(self) -> None:
        self._close()

    def on_search_input_kind(self) -> None:
        self._say_kind()

    def _say_kind(self) -> None:
        self._kind.show([((" regex/" if self._search.regex else " /", "key"),)])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close()
        if event.value:
            self.reader.search_for(event.value, self._search.regex)
            self._do(lambda: self.reader.find(True))

    def on_descendant_focus(self, _: events.DescendantFocus) -> None:
        self._paint()

    def on_descendant_blur(self, _: events.DescendantBlur) -> None:
        self._paint()

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        width, height = self.lines.size
        if not width or not height:
            return
        self.reader.viewport.resize(width - GUTTER, height)
        self._do(self.reader.settle if self.reader.loaded else self.reader.to_end)
        self._paint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-3)


def _lines(count: int | None, indexed: int, size: int) -> str:
    if count is None:
        return fmt.size(size)
    if indexed < size:
        return f"indexing {fmt.percent(100 * indexed / size)}"
    return fmt.plural(count, "line") if count == 1 else f"{fmt.thousands(count)} lines"
