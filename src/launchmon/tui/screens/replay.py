"""The main screen over a recording: the run as it was, and a time line to move along."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult

from launchmon.actions import Action, in_scope
from launchmon.config import Config
from launchmon.ladder import Ladder
from launchmon.replay.session import ReplaySession
from launchmon.replay.times import moment
from launchmon.tui.bindings import bindings
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.panels.timeline import Timeline
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.widgets.prompt import Prompt
from launchmon_agent.errors import Refused

TICK_S = 0.25
"""How often a recording that plays moves on, and is drawn."""


class ReplayScreen(RunScreen):
    """Moves a :class:`ReplaySession` and draws it. ``live``: the run itself is on the screen beneath."""

    SCOPES = ("replay", "run", "panel")
    BINDINGS = bindings("replay")
    HELP: ClassVar[str] = (
        "A run as it was at one moment of its recording. The second line is the time line: marks for phases, verdicts, "
        "stacks, errors and exits, and █ where the screen stands. All below is as it was then, and nothing of it can "
        "be changed."
    )

    DEFAULT_CSS = """
    ReplayScreen {
        &.-tiny Timeline, &.-short Timeline { max-height: 1; }
    }
    """

    def __init__(
        self,
        session: ReplaySession,
        ladder: Ladder,
        config: Config = Config(),  # noqa: B008  (frozen)
        *,
        live: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(session, ladder, replace(config, bell=False, osc9=False))  # what has passed calls nobody
        self.replay = session
        self._live = live
        self._jumps = session.jumps
        self._clock = clock
        self._ticked = clock()
        self._panels.insert(1, Timeline(session, session.to_time, id="timeline"))
        self._prompt = Prompt(id="replay-prompt")
        self._footer = FooterBar(footer_actions(live=live))

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            if widget is self._footer:
                yield self._prompt
            yield widget

    def on_mount(self) -> None:
        self.set_interval(TICK_S, self._tick)

    def look(self) -> None:
        if self._jumps != self.replay.jumps:
            self._jumps = self.replay.jumps
            self.log_panel.rewound()  # what it holds had not been written yet
        super().look()

    def _changed(self) -> None:
        """A move: shown at once, but for those that playing makes."""
        if self.is_mounted and not self.replay.playing:
            self.look()

    def _tick(self) -> None:
        now = self._clock()
        elapsed, self._ticked = now - self._ticked, now
        if self.replay.playing:
            self.replay.advance(elapsed)
            self.look()

    # ---------------------------------------------------------------------------------------------------------- actions

    def action_play(self) -> None:
        self.replay.play_or_pause()
        self.look()

    def action_faster(self) -> None:
        self.replay.faster(1)
        self.look()

    def action_slower(self) -> None:
        self.replay.faster(-1)
        self.look()

    def action_event_next(self) -> None:
        self.replay.by_events(1)

    def action_event_previous(self) -> None:
        self.replay.by_events(-1)

    def action_second_next(self) -> None:
        self.replay.by_seconds(1.0)

    def action_second_previous(self) -> None:
        self.replay.by_seconds(-1.0)

    def action_moment_next(self) -> None:
        if self.replay.to_moment(True) is None:
            self.replay.to_time(self.replay.recorded.end)

    def action_moment_previous(self) -> None:
        if self.replay.to_moment(False) is None:
            self.replay.to_time(self.replay.recorded.begin)

    def action_replay_start(self) -> None:
        self.replay.to_time(self.replay.recorded.begin)

    def action_replay_end(self) -> None:
        self.replay.to_time(self.replay.recorded.end)

    def action_moment_go(self) -> None:
        self._prompt.ask("moment", "go to (18:05:12, 1m30s, -30s)")

    def on_prompt_answered(self, event: Prompt.Answered) -> None:
        if event.what != "moment":
            return
        if event.text:
            try:
                self.replay.to_time(moment(event.text, self.replay.recorded.begin, self.replay.recorded.end))
            except Refused as refusal:
                self.notify(f"{refusal.what}: {refusal.cause}", severity="warning", markup=False)
                return  # the prompt stays, with the time to be corrected
        self._prompt.close()
        self.log_panel.lines.focus()

    def action_rewind(self) -> None:
        """Back to the run itself."""
        if self._live:
            self.app.pop_screen()
        else:
            self.notify("This is a recording: there is nothing live beneath it. q leaves.", markup=False)


def footer_actions(*, live: bool) -> list[Action]:
    """Those that move come first, then what can be looked at; what changes a run has no place here."""
    moving = in_scope("replay")
    looking = [action for action in in_scope("run") if action.footer and not action.changes]
    first = [replace(action, footer=3, label="live") for action in in_scope("run") if action.id == "rewind" and live]
    later = [replace(action, footer=action.footer + 200) for action in looking if action.id != "rewind"]
    return [*first, *moving, *later, *in_scope("app")]
