"""The stacks of all ranks: who is where, what each waits for, and whether anything has moved."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Container

from launchmon.actions import in_scope
from launchmon.format import duration, plural
from launchmon.session_like import SessionLike
from launchmon.tui.bindings import bindings
from launchmon.tui.layout import HEIGHTS
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.panels.header import run_name
from launchmon.tui.screens.following import REFRESH_S, FollowingScreen
from launchmon.tui.stacks import rows, save, words
from launchmon.tui.stacks.board import Board
from launchmon.tui.stacks.tree import Item
from launchmon.tui.view import View
from launchmon.tui.widgets.facts import paragraph, refusal_rows
from launchmon.tui.widgets.lines import Lines, Row, set_title
from launchmon.tui.widgets.pager import Pager
from launchmon.tui.widgets.prompt import Prompt
from launchmon_agent.errors import Refused
from launchmon_agent.stacks import render
from launchmon_agent.stacks.merge import Merged

TALL = 40
"""Rows from which an entry of the list has several lines, also where the frames stand below it."""


LIST_HELP = (
    "One entry for each set of processes that are in the same functions, the smallest first. Its first words are the "
    "ranks, then the function that they are in and who called it; = and ↷ say whether they have moved since the dump "
    "before. Digits select a rank, / filters, t shows the other threads, c puts the dump before beside this one."
)

FRAMES_HELP = (
    "The frames of the selected entry, the innermost first: function, file and line. Frames that only carry others are "
    "folded into a line with their number; f shows them. D reads C and C++ frames too, l the local variables."
)


class StacksScreen(FollowingScreen):
    """Takes a dump when it opens. Shows any dump of the run, also those that came by themselves."""

    SCOPES = ("stacks", "panel", "paging")
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "The Python stacks of all ranks and of what started them, taken at one moment. Ranks in the same functions are "
        "one line, and the smallest set stands first: it is the odd one out. ‹ means: called by. The box says what the "
        "wait is, who ends it, and what helps if nobody does. "
        "A healthy idle rank looks like a hung one, so compare: = unchanged ×3 says that the main thread was the "
        "same, line for line, in the three dumps before; ↷ that it has moved. ◆ ◇ are dumps that launchmon took by "
        "itself when a stall began, ● ○ those that were asked for; the filled one is shown. "
        "↑ and ↓ select, Tab goes to the frames, PgUp and PgDn always move the frames. Where the kernel forbids to "
        "read stacks, the line with ✗ or ! says why, and the one step that helps."
    )
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide"), (170, "-very-wide")]  # noqa: RUF012  (Textual's own form)
    VERTICAL_BREAKPOINTS = list(HEIGHTS)  # noqa: RUF012
    CSS_PATH = "stacks.tcss"

    def __init__(self, session: SessionLike, *, native: bool = False) -> None:
        super().__init__(session, "stacks-header")
        self._native_first = native
        self._board = Board()
        self._owners: list[Item | None] = []  # of each row of the list
        self._chips: list[tuple[int, int, str]] = []
        self._reading: tuple[str, float] | None = None  # what, since when by the monotonic clock
        self._refusal: Refused | None = None
        self._head = Lines(id="stacks-head")
        self._chip_row = Lines(id="stacks-chips")
        self._problems = Lines(id="stacks-problems")
        self._box = Lines(id="stacks-box")
        self._middle = Container(id="stacks-middle")
        self._list = Pager(id="stacks-list")
        self._frames = Pager(id="stacks-frames")
        self._prompt = Prompt(id="stacks-prompt")

    def compose(self) -> ComposeResult:
        yield self.header
        yield self._head
        yield self._chip_row
        yield self._problems
        yield self._box
        with self._middle:
            yield self._list
            yield self._frames
        yield self._prompt
        yield FooterBar(in_scope("stacks", "app"))

    def on_mount(self) -> None:
        self._board.history.take(self.session.model.stacks)
        self._list.focus()
        if self.session.link.state != "replay":  # of a recording: those of then
            self._dump(native=self._native_first)

    # --------------------------------------------------------------------------------------------------------- reading

    def _dump(self, *, native: bool = False, locals_of: str | None = None) -> None:
        if self._reading is not None:
            self.notify("The dump before is still being read.", severity="warning")
            return
        ranks = sum(process.pid != 0 for process in self.session.model.rank_rows())
        what = f"reading {plural(ranks, 'rank') if ranks else 'the run'}"
        if native:
            what += " with native frames"
        if locals_of is not None:
            what += f" with local variables of {locals_of}"
        self._reading = what, time.monotonic()
        self._refusal = None
        self._read(native, locals_of)
        self.look()

    @work(group="dump", exit_on_error=False)
    async def _read(self, native: bool, locals_of: str | None) -> None:
        try:
            dump = await self.session.dump(native=native, locals_of=locals_of)
        except Refused as refusal:
            self._refusal = refusal
        except (ConnectionError, OSError) as error:
            self._refusal = Refused("the stacks could not be asked for", str(error), "attach again")
        else:
            self._board.history.take([dump])
            self._board.history.newest()
        finally:
            self._reading = None
        self.look()

    def session_changed(self) -> None:
        """A dump may have come by itself."""
        if self.is_mounted and len(self.session.model.stacks) > 0:
            known = self._board.history.dumps
            self._board.history.take(self.session.model.stacks)
            if self._board.history.dumps != known:
                self.look()

    # --------------------------------------------------------------------------------------------------------- drawing

    def look(self) -> None:
        """Show everything as it is now."""
        if not self.is_mounted or not self.size.width:
            return
        view = View.of(self.session)
        self.set_class(view.stale, "-stale")
        self.header.look(view)
        self._board.refresh()
        merged = self._board.merged
        self._head.show([self._head_row(view)])
        self._draw_problems(merged)
        self._draw_chips(merged)
        self._draw_box(merged)
        self._draw_list()
        self._draw_frames(merged)

    def _head_row(self, view: View) -> Row:
        width = self.size.width
        if self._reading is not None:
            what, since = self._reading
            seconds = time.monotonic() - since
            took = f" {duration(seconds)}" if seconds >= REFRESH_S else ""
            return ((" ", "plain"), ("STACKS", "title"), ("  ", "plain"), (f"◉ {what}…{took}", "busy"))
        if not self._board.history.dumps:
            return ((" ", "plain"), ("STACKS", "title"), ("  ", "plain"), ("no dump yet", "muted"))
        return rows.headline(self._board.history.dumps, self._board.history.place, view.now, width)

    def _draw_problems(self, merged: Merged | None) -> None:
        shown: list[Row] = []
        if merged is not None and self._refusal is not None:
            shown = refusal_rows(self._refusal, self.size.width - 1)
        elif merged is not None:
            shown = rows.problem_rows(words.problems(merged.dump), self.size.width)
        self._problems.set_class(bool(shown), "-shown")
        self._problems.show(shown)

    def _draw_chips(self, merged: Merged | None) -> None:
        row: Row = ()
        self._chips = []
        if merged is not None and len(merged.dump.stacks) > 1:
            chosen = () if self._board.selected is None else self._board.selected.who
            row, self._chips = rows.chips(merged.dump, chosen, self.size.width)
        self._chip_row.set_class(bool(row), "-shown")
        self._chip_row.show([row])

    def _draw_box(self, merged: Merged | None) -> None:
        width = max(20, self.size.width - 4)
        item = self._board.selected
        tone = ""
        if merged is None:
            title, shown, tone = rows.without_dump(
                "" if self._reading is None else self._reading[0], self._refusal, width
            )
        elif item is None:
            title, text = self._board.why_empty()
            shown = paragraph(text, width)
        else:
            title = rows.title(item, merged.changes)
            shown = rows.explanation(item, merged.dump, width)
            tone = "bad" if item.problem else "warn" if item.explanation and item.explanation.waiting else ""
        set_title(self._box, title)
        for name in ("bad", "warn", "busy"):
            self._box.set_class(name == tone, f"-{name}")
        self._box.show(shown)
        self._middle.set_class(merged is None, "-nothing")

    def _draw_list(self) -> None:
        width = self._list.size.width
        if not width:
            return
        head = rows.list_head(self._board)
        flat = self.has_class("-narrow") and self.size.height < TALL
        body, where, self._owners = rows.entry_rows(self._board.entries, self._board.selected, width, flat=flat)
        self._list.fill([head], body, where)

    def _draw_frames(self, merged: Merged | None) -> None:
        width = self._frames.size.width
        if width and merged is not None:
            self._frames.fill(*rows.frames_pane(self._board, merged.dump, width))

    @property
    def focused_help(self) -> tuple[str, str]:
        return ("frames", FRAMES_HELP) if self._frames.has_focus else ("list", LIST_HELP)

    # --------------------------------------------------------------------------------------------------------- actions

    def action_dump(self) -> None:
        self._dump()

    def action_dump_native(self) -> None:
        self._dump(native=True)

    def action_locals(self) -> None:
        if self._board.selected is None:
            self.notify("Select a rank first.", severity="warning")
        else:
            self._dump(locals_of=self._board.selected.who[0])

    def action_fold(self) -> None:
        self._board.fold = not self._board.fold
        self.look()

    def action_threads(self) -> None:
        self._board.toggle_threads()
        self._look_from_start()

    def action_compare(self) -> None:
        if not self._board.toggle_compare():
            self.notify("There is no dump before this one: d takes another.", severity="warning")
        self._look_from_start()

    def action_older(self) -> None:
        self._step(-1, "This is the first dump.")

    def action_newer(self) -> None:
        self._step(1, "This is the newest dump: d takes another.")

    def _step(self, by: int, otherwise: str) -> None:
        if self._board.step(by):
            self._refusal = None
            self.look()
        else:
            self.notify(otherwise, severity="warning")

    def action_select_rank(self, key: str) -> None:
        merged = self._board.merged
        ranks = [] if merged is None else [stack.who for stack in merged.dump.stacks if stack.rank is not None]
        if int(key) < len(ranks):
            self._board.select_who(ranks[int(key)])
            self._look_from_start()
        else:
            self.notify(f"There is no rank {key}.", severity="warning")

    def _look_from_start(self) -> None:
        """Other frames are to be shown: from the innermost on."""
        self._frames.to_start()
        self.look()

    def action_find(self) -> None:
        self._prompt.ask("filter", "filter", self._board.filter)

    def action_copy(self) -> None:
        if self._board.selected is None:
            self.notify("Nothing is selected to copy. Y copies the whole dump.", severity="warning")
        else:
            self._copy(save.item_text(self._board.selected), self._board.selected.label)

    def action_copy_all(self) -> None:
        merged = self._board.merged
        if merged is None:
            self.notify("There is no dump to copy yet.", severity="warning")
        else:
            self._copy(render.text(merged, whole=not self._board.fold, threads=True), "the whole dump")

    def _copy(self, text: str, what: str) -> None:
        self.app.copy_to_clipboard(text)
        self.notify(
            f"Copied {what}: {save.lines_of(text)}. A terminal without OSC 52 ignores that: then use s.", markup=False
        )

    def action_save(self) -> None:
        dump = self._board.history.current
        if dump is None:
            self.notify("There is no dump to save yet.", severity="warning")
        else:
            name = save.default_name(dump, run_name(self.session.model.run))
            label = "save as" if self.has_class("-narrow") else "save as (.txt .json .speedscope.json)"
            self._prompt.ask("save", label, name)

    def action_leave_stacks(self) -> None:
        if self._board.leave():
            self._look_from_start()
        else:
            self.app.pop_screen()

    def action_line_up(self) -> None:
        self._line(-1)

    def action_line_down(self) -> None:
        self._line(1)

    def _line(self, by: int) -> None:
        if self._frames.has_focus:
            self._frames.scroll_rows(by)
        else:
            self._board.select_next(by)
            self._look_from_start()

    def action_page_up(self) -> None:
        self._frames.scroll_pages(-1)

    def action_page_down(self) -> None:
        self._frames.scroll_pages(1)

    def action_to_start(self) -> None:
        self._edge(last=False)

    def action_to_end(self) -> None:
        self._edge(last=True)

    def _edge(self, *, last: bool) -> None:
        if not self._frames.has_focus:
            self._board.select_edge(last)
            self._look_from_start()
        elif last:
            self._frames.to_end()
        else:
            self._frames.to_start()

    def action_focus_next(self) -> None:
        self.focus_next(Pager)

    def action_focus_previous(self) -> None:
        self.focus_previous(Pager)

    # ---------------------------------------------------------------------------------------------------------- events

    def on_prompt_edited(self, event: Prompt.Edited) -> None:
        if event.what == "filter":
            self._board.filter = event.text
            self.look()

    def on_prompt_answered(self, event: Prompt.Answered) -> None:
        if event.what == "save" and event.text is not None and not self._save(event.text):
            return  # the prompt stays, with the name to be corrected
        if event.what == "filter" and event.text is None:
            self._board.filter = ""
        self._prompt.close()
        self._list.focus()
        self.look()

    def _save(self, path: str) -> bool:
        merged = self._board.merged
        if merged is None:
            return True
        try:
            written = save.save(merged, path, run_name(self.session.model.run))
        except Refused as refusal:
            told = ": ".join(part for part in (refusal.what, refusal.cause) if part)
            self.notify(f"✗ {told}. {refusal.try_.capitalize()}.", severity="error", markup=False)
            return False
        self.notify(f"✓ saved as {written}", markup=False)
        return True

    def on_pager_clicked(self, event: Pager.Clicked) -> None:
        if event.pager is self._list and event.row < len(self._owners):
            self._board.select(self._owners[event.row])
            self._look_from_start()

    def on_click(self, event: events.Click) -> None:
        if event.widget is self._chip_row:
            for begin, end, who in self._chips:
                if begin <= event.x < end:
                    self._board.select_who(who)
                    self._look_from_start()
