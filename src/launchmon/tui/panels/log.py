"""The log panel: the whole file where it lies, seen through windows that the session fetches."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Vertical
from textual.message import Message
from textual.worker import Worker

from launchmon import format as fmt
from launchmon.session_like import SessionLike
from launchmon.tui import log_pager
from launchmon.tui.log_places import failures, next_of, target, tracebacks
from launchmon.tui.log_reader import LogReader
from launchmon.tui.log_told import Told
from launchmon.tui.panels.log_prompt import LogPrompt
from launchmon.tui.panels.log_rows import GUTTER, Marks, log_row, matcher
from launchmon.tui.panels.log_title import empty_row, title_row
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Lines, Row, clipped
from launchmon_agent.errors import Refused
from launchmon_agent.events import LAUNCHER
from launchmon_agent.log.only import Only

PAN = 16
"""Characters that ← and → move."""

SHOWN_LEVELS = (None, "warning", "error")
"""What the level filter goes through."""


class LogView(Lines, can_focus=True):
    """The lines themselves. Keys and the wheel move over the whole file."""

    HELP: ClassVar[str] = (
        "The server's log, as long as it is: up, down, pages, Home and End go over the whole file, which stays on the "
        "target. At the end it follows what is written. ✗ marks errors and ! warnings, │ the lines that belong to one, "
        "◆ bookmarks, ▶ the line that is pointed at: by a search, a jump, a click, or Shift with an arrow. A search "
        "says which of how many lines it is at, and goes on counting meanwhile. What is filtered (rank, level, text) "
        "holds for searches too; Esc takes filters away one by one. SGLang prints no levels: they come from the "
        "wording. Folded, a line that several ranks wrote is shown once, with their number."
    )
    DEFAULT_CSS = """
    LogView { height: 1fr; }
    """

    class Resized(Message):
        """There is room for another number of lines, also where a prompt below takes some of it."""

    def on_resize(self, _: events.Resize) -> None:
        self.post_message(self.Resized())


class LogPanel(Vertical):
    """Title, lines and search prompt."""

    DEFAULT_CSS = """
    LogPanel { height: 1fr; min-height: 3; }
    LogPanel #log-title { height: 1; }
    """

    def __init__(self, session: SessionLike) -> None:
        super().__init__(id="log")
        self.reader = LogReader(session, self._paint)
        self._title = Lines(id="log-title")
        self.lines = LogView(id="log-lines")
        self._prompt = LogPrompt()
        self._view: View | None = None
        self._told = Told()
        self._drawn_from: object = None  # all that the lines on the screen were made of
        self._seen: tuple[int | None, int, int] | None = None
        self._growing: Worker[None] | None = None
        self._counting: Worker[None] | None = None
        self._counted: object = None

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.lines
        yield self._prompt

    # ---------------------------------------------------------------------------------------------------------- drawing

    def look(self, view: View) -> None:
        """Take in a new state: follow the log where it grew, and date the title."""
        self._view = view
        self._told = Told(view.model)
        log = view.model.log
        grown = None if log is None else (log.node, log.generation, log.size)
        busy = self._growing is not None and not self._growing.is_finished  # behind a search, or a pager
        if view.stale:
            self._seen = None  # once the link is there again, what was written meanwhile is looked at
        elif grown is not None and grown != self._seen and self.lines.size.width and not busy:
            self._seen = grown
            self._growing = self._do(self._grow, asked=False)
        self._paint()

    def _paint(self) -> None:
        if self._view is None or not self.lines.size.width:
            return
        width, height = self.lines.size
        self._title.show([title_row(self.reader, self._view, width, self.lines.has_focus)])
        search = self.reader.search
        marks = Marks(
            {error.offset: error.severity for error in self._told.errors},
            self.reader.pointer.current,
            frozenset(self.reader.pointer.bookmarks),
            matcher(search.pattern) if search.pattern and not search.regex else None,
        )
        drawn_from = (self.reader.viewport.place, width, height, marks)
        if drawn_from == self._drawn_from:  # the time in the title goes on also where nothing is written
            return
        rows = self.reader.viewport.rows()
        if not rows:
            self._drawn_from = None
            self.lines.show([*([()] * (height - 1)), clipped(empty_row(self.reader, self._view), width)][-height:])
            return
        self._drawn_from = drawn_from
        drawn: list[Row] = [log_row(row, width, marks) for row in rows]
        drawn += [()] * (height - len(drawn))
        self.lines.show(drawn)

    def begin_anew(self) -> None:
        """The log of another run is to be read from now on."""
        self._seen = None
        self.reader.begin_anew()

    def show_another(self, choose: Callable[[], None]) -> None:
        """``choose`` makes the session show another node's log; no request of before may bring lines of the old one."""

        async def change() -> None:
            choose()
            self.begin_anew()
            await self.reader.to_end()

        self._do(change)

    def rewound(self) -> None:
        """The log is what it was at an earlier time: shorter. The filter stays, and its end is shown."""
        self.reader.rewound()
        self._do(self.reader.to_end)

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

    def toggle_raw(self) -> None:
        self._do(lambda: self.reader.show_raw(not self.reader.raw))

    def toggle_fold(self) -> None:
        self._do(lambda: self.reader.set_fold(not self.reader.viewport.fold))

    def show_rank(self, rank: str | None) -> None:
        """Filter by this rank, or show all."""
        self._show_only(replace(self.reader.only, rank=rank))

    def next_rank(self) -> None:
        ranks = [*self._told.ranks(), LAUNCHER]
        here = self.reader.only.rank
        place = ranks.index(here) + 1 if here in ranks else 0
        self.show_rank(ranks[place] if place < len(ranks) else None)

    def nth_rank(self, place: int) -> None:
        ranks = self._told.ranks()
        if place >= len(ranks):
            self.reader.say(f"there is no rank {place}")
            return
        self.show_rank(None if self.reader.only.rank == ranks[place] else ranks[place])

    def next_level(self) -> None:
        """All lines, warnings and errors, errors, all again."""
        place = SHOWN_LEVELS.index(self.reader.only.level) + 1
        self._show_only(replace(self.reader.only, level=SHOWN_LEVELS[place % len(SHOWN_LEVELS)]))

    def next_error(self, forward: bool) -> None:
        if not self._told.errors and self._told.elsewhere():
            self.reader.say(self._told.elsewhere())
            return
        self._go_to_next([error.offset for error in self._told.errors], forward, "error")

    def first_error(self) -> None:
        found = failures(self._told.errors)
        if not found and self._told.elsewhere():
            self.reader.say(self._told.elsewhere())
        elif found:
            self._do(lambda: self.reader.arrive(found[0], f"the first of {fmt.plural(len(found), 'error')}"))
        else:
            self.reader.say("no error in the log")

    def next_traceback(self) -> None:
        self._go_to_next(tracebacks(self._told.errors), True, "traceback")

    def next_phase(self, forward: bool) -> None:
        begins = self._told.phase_begins()
        found = next_of(begins.values(), self.reader.pointer.here, forward)
        if found is None:
            self.reader.say("no phase has begun in this log")
            return
        name = next(name for name, offset in begins.items() if offset == found.offset)
        self._do(lambda: self.reader.arrive(found.offset, f"{name} · phase {found.place} of {found.of} in the log"))

    def point(self, rows: int) -> None:
        """Move the pointer."""
        self.reader.point(rows)
        self._do(self.reader.settle)

    def toggle_bookmark(self) -> None:
        marked = self.reader.pointer.toggle_bookmark()
        if marked is not None:
            self.reader.say("bookmarked" if marked else "bookmark taken away")

    def next_bookmark(self, forward: bool) -> None:
        self._go_to_next(self.reader.pointer.bookmarks, forward, "bookmark")

    def find_next(self, forward: bool) -> None:
        if not self.reader.search.pattern:
            self.reader.say("nothing searched yet: / searches")
            return
        self._do(lambda: self._find(forward))

    def copy(self) -> None:
        """Copy the line that is pointed at, else all on the screen."""
        self._copy(self.reader.pointer.texts())

    def copy_bookmarks(self) -> None:
        if not self.reader.pointer.bookmarks:
            self.reader.say("no bookmark in the log: m sets one")
            return
        self._do(self._copy_bookmarks)

    async def _copy_bookmarks(self) -> None:
        self._copy(await self.reader.bookmarked())

    def _copy(self, lines: list[str]) -> None:
        if lines:
            self.app.copy_to_clipboard("\n".join(lines))
            self.reader.say(f"copied {fmt.plural(len(lines), 'line')}")

    def open_in_pager(self) -> None:
        self._do(self._page_through)

    async def _page_through(self) -> None:
        """Raises :class:`Refused` where there is no pager, or no terminal to give it."""
        words = log_pager.pager(os.environ)
        path = self.reader.local_log
        if path is not None:
            await self._suspended(words, log_pager.Document(path, self.reader.place))
        else:
            lines, place = await self.reader.around(log_pager.AROUND)
            with log_pager.private(lines, place) as document:
                await self._suspended(words, document)

    async def _suspended(self, words: list[str], document: log_pager.Document) -> None:
        """Nothing is painted meanwhile, and the session goes on: a link that is not served would be taken for dead."""
        try:
            with self.app.batch_update(), self.app.suspend(), log_pager.undisturbed():
                await asyncio.to_thread(log_pager.show, words, document, os.environ)
        except SuspendNotSupported:
            raise Refused("the pager cannot be opened here", "this is no terminal that can be handed over") from None

    def ask(self, what: str = "search") -> None:
        """Open the prompt for a search, a filter or a place."""
        self._prompt.ask_for(what)

    def leave(self) -> bool:
        """Close what is open, one thing at a time: prompt, search, filters. False when there was nothing."""
        only = self.reader.only
        if self._prompt.open:
            self._close()
        elif self.reader.search.pattern:
            self.reader.forget_search()
        elif only.only is not None:
            self._show_only(replace(only, only=None, only_regex=False))
        elif only.level is not None:
            self._show_only(replace(only, level=None))
        elif only.rank is not None:
            self.show_rank(None)
        else:
            return False
        return True

    def _show_only(self, only: Only) -> None:
        async def show_and_count() -> None:
            await self.reader.show_only(only)
            self._count()

        self._do(show_and_count)

    async def _grow(self) -> None:
        await self.reader.grown()
        self._count()

    def _go_to_next(self, offsets: Iterable[int], forward: bool, what: str) -> None:
        self._do(lambda: self.reader.next_of(offsets, forward, what))

    async def _find(self, forward: bool) -> None:
        await self.reader.find(forward)
        self._count()

    def _count(self) -> None:
        """Count on in the background. A count for another search ends here; one for this search goes on."""
        search, pointer = self.reader.search, self.reader.pointer
        search.stand_on(None if pointer.place is None else pointer.current)
        busy = self._counting is not None and not self._counting.is_finished
        if search.pattern and not (busy and self._counted is search.job):
            self._counted = search.job
            self._counting = self.run_worker(search.count(), group="count", exclusive=True, exit_on_error=False)

    def _close(self) -> None:
        self._prompt.close()
        self.lines.focus()

    def _do(self, work: Callable[[], Awaitable[None]], asked: bool = True) -> Worker[None]:
        # Failures of a request are said in the title; anything else must end the worker, not the screen.
        return self.run_worker(self.reader.guarded(work, asked), group="log", exit_on_error=False)

    # ----------------------------------------------------------------------------------------------------------- events

    def on_log_prompt_answered(self, event: LogPrompt.Answered) -> None:
        event.stop()
        self._close()
        text = event.text
        if event.what == "only" and text is not None:
            self._show_only(replace(self.reader.only, only=text or None, only_regex=event.regex and bool(text)))
        elif event.what == "go" and text:
            self._do(lambda: self.reader.go(target(text, self._told.phase_begins(), self._told.errors)))
        elif event.what in ("search", "search-back") and text:
            self.reader.search_for(text, event.regex)
            self._count()
            self._do(lambda: self._find(event.what == "search"))

    def on_click(self, event: events.Click) -> None:
        if event.widget is self.lines:
            self.reader.pointer.point_at(event.y)
            self._paint()

    def on_descendant_focus(self, _: events.DescendantFocus) -> None:
        self._paint()

    def on_descendant_blur(self, _: events.DescendantBlur) -> None:
        self._paint()

    def on_log_view_resized(self) -> None:
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
