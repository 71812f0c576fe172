"""The ledger: all attempts of a series, what each changed, how far it got and how long its phases took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult

from launchmon.actions import in_scope
from launchmon.format import plural
from launchmon.ladder import Ladder
from launchmon.session_like import SessionLike
from launchmon.tui.bindings import bindings
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.relaunch.attempt_rows import detail_rows, place_of, table_rows
from launchmon.tui.relaunch.ladder_rows import ladder_rows
from launchmon.tui.screens.following import FollowingScreen
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.widgets.facts import indented, refusal_rows
from launchmon.tui.widgets.lines import Row
from launchmon.tui.widgets.pager import Pager
from launchmon_agent.errors import Refused


class AttemptsScreen(FollowingScreen):
    SCOPES = ("ledger",)
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "All attempts of this series, oldest first: what each changed against the one before, how far it got, the "
        "seconds that each phase took, the verdict and the exit. ★ is the best: ready soonest, else the one that got "
        "furthest. A yellow time is of the phase in which the attempt stopped. Below is all about the selected one, "
        "and what the newest changes against the last that worked. Enter starts again from the selected command. "
        "While a ladder is climbed, its steps stand between; s stops it."
    )
    CSS_PATH = "attempts.tcss"

    def __init__(self, session: SessionLike, ladder: Ladder) -> None:
        super().__init__(session, "attempts-header")
        self._ladder = ladder
        self._ledger: Mapping[str, Any] | None = None
        self._refusal: Refused | None = None
        self._selected = 0
        self._reading = False
        self._read_at: object = None  # what of the session the ledger was read for
        self._list = Pager(id="attempts-list")
        self._climb = Pager(id="attempts-ladder")
        self._detail = Pager(id="attempts-detail")

    def compose(self) -> ComposeResult:
        yield self.header
        yield self._list
        yield self._climb
        yield self._detail
        yield FooterBar(in_scope("ledger", "app"))

    def on_mount(self) -> None:
        self._list.focus()
        self.session_changed()

    # --------------------------------------------------------------------------------------------------------- reading

    def session_changed(self) -> None:
        """Read it again where something has happened that it tells of."""
        model = self.session.model
        phases = tuple((cell.phase, cell.state) for cell in model.phases.rail(model.now))
        state = (model.run and model.run.id, model.verdict and model.verdict.verdict, phases, len(model.exits))
        if not self._reading and state != self._read_at:
            self._reading, self._read_at = True, state
            self._read()

    @work(group="ledger", exit_on_error=False)
    async def _read(self) -> None:
        first = self._ledger is None
        try:
            self._ledger = await self.session.ledger()
            self._refusal = None
        except Refused as refusal:
            self._refusal = refusal
        except (ConnectionError, OSError) as error:
            self._refusal = Refused("the attempts could not be asked for", str(error), "attach again")
        finally:
            self._reading = False
        if first and self._ledger is not None:
            run = self.session.model.run
            self._selected = place_of(self._ledger["attempts"], None if run is None else run.id)
        self.look()

    # --------------------------------------------------------------------------------------------------------- drawing

    def look(self) -> None:
        if not self.is_mounted or not self._list.size.width:
            return
        self.look_at_header()
        self._look_at_ladder()
        width = self._list.size.width
        title: Row = ((" ", "plain"), ("ATTEMPTS", "title"))
        if self._refusal is not None or self._ledger is None:
            refusal = self._refusal
            body: list[Row] = [(("reading…", "muted"),)] if refusal is None else refusal_rows(refusal, width - 2)
            self._list.fill([title], [(), *indented(body)])
            self._detail.fill([], [])
            return
        attempts = self._ledger["attempts"]
        self._selected = max(0, min(self._selected, len(attempts) - 1))
        words = f"  {plural(len(attempts), 'attempt')} of {self._ledger['series']} · ★ the best"
        heading, rows = table_rows(self._ledger, self._selected, width)
        self._list.fill([(*title, (words, "muted")), heading], rows, range(self._selected, self._selected + 1))
        if attempts:
            one = attempts[self._selected]
            head: Row = ((" ", "plain"), (f"ATTEMPT {one['attempt']}", "title"))
            self._detail.fill([head], detail_rows(self._ledger, self._selected, self._detail.size.width))

    def each_second(self) -> None:
        self.look_at_header()
        if self._ladder.climbing:
            self._look_at_ladder()

    def _look_at_ladder(self) -> None:
        shown = self._ladder.climbing or self._ladder.end is not None
        self._climb.set_class(shown, "-shown")
        if shown:
            head, body = ladder_rows(self._ladder, self._list.size.width)
            self._climb.fill([head], body, range(len(body) - 1, len(body)))

    # --------------------------------------------------------------------------------------------------------- actions

    @property
    def _attempt(self) -> Mapping[str, Any] | None:
        attempts = [] if self._ledger is None or self._refusal is not None else self._ledger["attempts"]
        return attempts[self._selected] if attempts else None

    def action_relaunch_from(self) -> None:
        one = self._attempt
        if one is not None:
            run = self.session.model.run
            present = run is not None and run.id == one["id"]
            self.app.push_screen(RelaunchScreen(self.session, back_to=None if present else one["id"]))

    def action_stop_ladder(self) -> None:
        if self._ladder.climbing:
            self._ladder.stop()
            self.notify("The ladder begins nothing more.")
        else:
            self.notify("No ladder is being climbed: r, then l begins one.", severity="warning")

    def action_copy_attempt(self) -> None:
        one = self._attempt
        if one is not None:
            self.app.copy_to_clipboard(one["command"])
            self.notify(f"Copied the command line of attempt {one['attempt']}.", markup=False)

    def action_leave_attempts(self) -> None:
        self.app.pop_screen()

    def action_attempt_up(self) -> None:
        self._select(self._selected - 1)

    def action_attempt_down(self) -> None:
        self._select(self._selected + 1)

    def action_attempt_page_up(self) -> None:
        self._detail.scroll_pages(-1)

    def action_attempt_page_down(self) -> None:
        self._detail.scroll_pages(1)

    def _select(self, place: int) -> None:
        self._selected = place
        self._detail.to_start()
        self.look()

    def on_pager_clicked(self, event: Pager.Clicked) -> None:
        if event.pager is self._list:
            self._select(event.row)
