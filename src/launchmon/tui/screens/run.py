"""The main screen: one run, from its first second to its end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Resize
from textual.timer import Timer
from textual.widget import Widget

from launchmon.actions import in_scope
from launchmon.config import PANELS, Config
from launchmon.format import one_line
from launchmon.ladder import Ladder
from launchmon.session_like import SessionLike
from launchmon.tui.arranging import Arranging
from launchmon.tui.attention import Attention
from launchmon.tui.bindings import bindings
from launchmon.tui.layout import HEIGHTS, WIDTHS, Arrangement, Layouts, state_file
from launchmon.tui.log_actions import LogActions
from launchmon.tui.looking_back import PastActions
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.panels.gpus import GpusPanel
from launchmon.tui.panels.header import HeaderBar, run_name
from launchmon.tui.panels.log import LogPanel, LogView
from launchmon.tui.panels.rail import Rail
from launchmon.tui.panels.ranks import RanksPanel
from launchmon.tui.panels.verdict import VerdictPanel, kept_dumps
from launchmon.tui.screens.attempts import AttemptsScreen
from launchmon.tui.screens.described import DescribedScreen
from launchmon.tui.screens.kill import KillScreen
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.screens.stacks import StacksScreen
from launchmon.tui.screens.verdict import VerdictScreen
from launchmon.tui.view import View
from launchmon.tui.widgets.panel import Panel

logger = logging.getLogger("launchmon.tui")

REFRESH_S = 1.0
"""Panels are looked at once a second: no value changes faster."""

LOG_REFRESH_S = 0.25
"""The log is painted four times a second at most, whatever is written."""


class RunScreen(LogActions, PastActions, DescribedScreen):
    """Draws a session. Never changes anything but through an action that a person asked for."""

    SCOPES: ClassVar[tuple[str, ...]] = ("run", "panel", "paging")
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "One run of a server. The first line says how fresh all this is; the second shows the phases of the launch: "
        "✓ done, ◉ running, ○ to come, ⊘ skipped, ■ stopped, ✗ failed. Below: what to make of it, the GPUs, the ranks, "
        "the log."
    )
    HORIZONTAL_BREAKPOINTS = list(WIDTHS)  # noqa: RUF012  (Textual's own form)
    VERTICAL_BREAKPOINTS = list(HEIGHTS)  # noqa: RUF012
    CSS_PATH = "run.tcss"

    def __init__(
        self,
        session: SessionLike,
        ladder: Ladder,
        config: Config = Config(),  # noqa: B008  (frozen)
    ) -> None:
        super().__init__()
        self.session = session
        self._ladder = ladder
        self._config = config
        self._attention = Attention(config)
        remembered = state_file(os.environ) if config.remember_layout else None
        layouts = Layouts(remembered, PANELS, Arrangement(frozenset(config.hidden_panels)))
        self._arranging = Arranging(self, layouts, PANELS, "middle")
        self._panels: list[Panel] = [HeaderBar(id="header"), Rail(id="rail"), VerdictPanel(id="verdict")]
        self._gpus, self._ranks = GpusPanel(config.hot_c, id="gpus"), RanksPanel(id="ranks")
        self.log_panel = LogPanel(session)
        self._footer = FooterBar(in_scope("run", "app"))
        self._unsubscribe: Callable[[], None] | None = None
        self._soon: Timer | None = None
        self._shown: object = None
        self._log_shown: object = None
        self._run_id: str | None = None
        self._link: tuple[str, bool] | None = None

    def compose(self) -> ComposeResult:
        yield from self._panels
        with Container(id="middle"):
            yield self._gpus
            yield self._ranks
        yield self.log_panel
        yield self._footer

    def on_mount(self) -> None:
        self._panels += [self._gpus, self._ranks]
        self.set_interval(REFRESH_S, self.look)
        self._unsubscribe = self.session.subscribe(self._changed)
        self.log_panel.lines.focus()
        if self._config.log_wrap:
            self.log_panel.toggle_wrap()
        self.call_after_refresh(self.look)

    def on_resize(self, _: Resize) -> None:
        self._arranging.fit()

    def on_unmount(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    # ---------------------------------------------------------------------------------------------------------- drawing

    def look(self) -> None:
        """Show the session as it is now."""
        view = View.of(self.session)
        self._notice_relaunch(view)
        self._tell_of_link(view)
        self._attention.look(self.app, view.model.verdict, run_name(view.model.run))
        self.set_class(view.stale, "-stale")
        self._shown = self._urgent()
        for panel in self._panels:
            panel.look(view)
        kept = kept_dumps(view)
        self._footer.relabel("stacks", f"stacks (kept {kept})" if kept else "stacks")
        self._look_at_log(view)

    def _notice_relaunch(self, view: View) -> None:
        """The session follows another run since the last look: nothing of the old one's log is to stay."""
        run = view.model.run
        if run is None or run.id == self._run_id:
            return
        if self._run_id is not None:
            self.log_panel.begin_anew()
        self._run_id = run.id

    def _tell_of_link(self, view: View) -> None:
        """Say once why the link was lost, and that it is there again; how long ago is in the first line."""
        before, self._link = self._link, (view.link_state, view.given_up)
        if before is None or before == self._link:
            return
        if view.stale:
            why = one_line(view.link_message)
            what = f"The link to {view.target} is lost" if view.link_state == "lost" else view.target
            self.notify(f"{what}: {why}", severity="error" if view.given_up else "warning", markup=False)
        elif before[0] == "lost":
            self.notify(f"The link to {view.target} is there again.", markup=False)

    def _look_at_log(self, view: View) -> None:
        self._log_shown = view.model.log
        try:
            self.log_panel.look(view)
        except Exception as error:
            logger.exception("the log panel failed")
            self.notify(f"the log panel failed: {type(error).__name__}: {error}", severity="error", markup=False)

    def _changed(self) -> None:
        """The session changed, possibly many times a second: look once, soon, unless the next second will do."""
        news = self.session.model.log is not self._log_shown or self._urgent() != self._shown
        if news and self._soon is None and self.is_mounted:
            self._soon = self.set_timer(LOG_REFRESH_S, self._look_soon)

    def _look_soon(self) -> None:
        self._soon = None
        if self._urgent() != self._shown:
            self.look()
        else:
            self._look_at_log(View.of(self.session))

    def _urgent(self) -> object:
        """What is shown at once when it changes, rather than at the next second: conclusions, and the link."""
        model = self.session.model
        verdict = model.verdict
        return (
            self.session.link.state,
            None if verdict is None else (verdict.verdict, verdict.confidence),
            len(model.exits),
            len(model.errors),
            len(model.stacks),
            model.run and model.run.id,
            model.gpus is None,
            model.processes is None,
        )

    # ---------------------------------------------------------------------------------------------------------- actions

    def action_stacks(self) -> None:
        self.app.push_screen(StacksScreen(self.session))

    def action_stacks_native(self) -> None:
        self.app.push_screen(StacksScreen(self.session, native=True))

    def action_verdict(self) -> None:
        self.app.push_screen(VerdictScreen(self.session))

    def action_kill(self) -> None:
        self.app.push_screen(KillScreen(self.session))

    def action_relaunch(self) -> None:
        self.app.push_screen(RelaunchScreen(self.session))

    def action_attempts(self) -> None:
        self.app.push_screen(AttemptsScreen(self.session, self._ladder))

    def action_expand(self) -> None:
        self._arranging.expand(str(self._focused_panel().id))
        self.call_after_refresh(self.look)

    def action_hide(self) -> None:
        name = str(self._focused_panel().id)
        if self._arranging.hide(name):
            self.notify(f"The {name} panel is hidden on screens of this size. H shows it again.")
        else:
            self.notify("This one stays: hide the GPUs, the ranks or the log.", severity="warning")
        self.call_after_refresh(self.look)

    def action_show_panels(self) -> None:
        if not self._arranging.show_all():
            self.notify("No panel is hidden.")
        self.call_after_refresh(self.look)

    def show_log(self) -> None:
        self._arranging.uncover(str(self.log_panel.id))

    def action_reset(self) -> None:
        if self.log_panel.leave():
            return
        if self._arranging.shrink():
            self.call_after_refresh(self.look)

    def action_focus_next(self) -> None:
        self.focus_next()

    def action_focus_previous(self) -> None:
        self.focus_previous()

    def action_line_up(self) -> None:
        self._scroll(-1)

    def action_line_down(self) -> None:
        self._scroll(1)

    def action_page_up(self) -> None:
        self._page(-1)

    def action_page_down(self) -> None:
        self._page(1)

    def action_to_start(self) -> None:
        panel = self._focused_panel()
        if isinstance(panel, Panel):
            panel.scroll_by(-len(panel.rows) - 10_000)
        else:
            self.log_panel.to_start()

    def action_to_end(self) -> None:
        panel = self._focused_panel()
        if isinstance(panel, Panel):
            panel.scroll_by(10_000)
        else:
            self.log_panel.to_end()

    def _scroll(self, rows: int) -> None:
        panel = self._focused_panel()
        if isinstance(panel, Panel):
            panel.scroll_by(rows)
        else:
            self.log_panel.scroll_rows(rows)

    def _page(self, pages: int) -> None:
        panel = self._focused_panel()
        if isinstance(panel, Panel):
            panel.scroll_by(pages * max(1, panel.limit - 1))
        else:
            self.log_panel.scroll_pages(pages)

    def _focused_panel(self) -> Widget:
        """The panel with the focus; the log where nothing has it."""
        focused = self.focused
        return focused if isinstance(focused, Panel) else self.log_panel

    @property
    def focused_help(self) -> tuple[str, str]:
        """Name and help of the focused panel, for the help screen."""
        focused = self.focused
        if isinstance(focused, Panel):
            return str(focused.id), focused.HELP
        return "log", LogView.HELP
