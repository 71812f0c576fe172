"""The application: opens a session or lets a person pick one, and shows it."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import work
from textual.app import App, SystemCommand
from textual.screen import Screen

from launchmon.actions import Action, in_scope
from launchmon.tui import theme
from launchmon.tui.bindings import bindings, method
from launchmon.tui.protocol import Found, SessionLike
from launchmon.tui.screens.attempts import AttemptsScreen
from launchmon.tui.screens.connect import ConnectScreen
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.home import HomeScreen, Pick
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.screens.stacks import StacksScreen
from launchmon.tui.screens.start import StartScreen
from launchmon.tui.screens.verdict import VerdictScreen
from launchmon_agent.errors import Refused

logger = logging.getLogger("launchmon.tui")

OpenSession = Callable[[], Awaitable[SessionLike]]
Attach = Callable[[Found], Awaitable[SessionLike]]


@dataclass(frozen=True)
class Outcome:
    """How the TUI ended. ``session`` is closed; its model is as it was last."""

    session: SessionLike | None = None
    refusal: Refused | None = None
    """Why no session could be opened."""


class LaunchmonApp(App[Outcome]):
    TITLE = "launchmon"
    BINDINGS = bindings("app")
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_DISPLAY = "ctrl+p"

    def __init__(
        self,
        open_session: OpenSession | None,
        *,
        pick: Pick | None = None,
        attach: Attach | None = None,
        opening: str = "connecting",
        kill_on_exit: bool = False,
        theme_name: str | None = None,
        theme_dirs: Iterable[Path] = (),
        keymap: Mapping[str, str] | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """``open_session`` is awaited at once; without it ``pick`` lists runs and ``attach`` opens one of them.

        ``kill_on_exit`` stops the server when the person leaves: for a demo, which nobody wants to keep.
        """
        # Without colours only styles are sent. Textual would send greys, unless the colours are the terminal's own.
        super().__init__(ansi_color=True if environment.get("NO_COLOR") else None)
        if open_session is None and (pick is None or attach is None):
            raise ValueError("without open_session, both pick and attach are needed")
        self._open_session = open_session
        self._pick = pick
        self._attach_found = attach
        self._opening = opening
        self._kill_on_exit = kill_on_exit
        self._leaving = False
        self.session: SessionLike | None = None
        self.animation_level = "none"  # motion costs bytes over SSH and tells nothing here
        for loaded in theme.load_all(theme_dirs):
            self.register_theme(loaded)
        wanted = theme_name or theme.fitting(environment)
        self.theme = wanted if wanted in self.available_themes else theme.DARK
        if keymap:
            self.set_keymap(dict(keymap))

    def on_mount(self) -> None:
        if self._open_session is not None:
            self._open(self._open_session)
        elif self._pick is not None:
            self.push_screen(HomeScreen(self._pick))

    def on_home_screen_chosen(self, event: HomeScreen.Chosen) -> None:
        opener = self._attach_found
        if opener is not None:
            self._open(lambda: opener(event.found))

    @work(exclusive=True, group="open")
    async def _open(self, opener: OpenSession) -> None:
        waiting = ConnectScreen(self._opening)
        await self.push_screen(waiting)
        try:
            self.session = await opener()
        except Refused as refusal:
            self._not_opened(waiting, refusal)
        except (ConnectionError, OSError) as error:
            self._not_opened(waiting, Refused("the run could not be opened", str(error), "launchmon doctor"))
        else:
            await self.switch_screen(RunScreen(self.session))

    def _not_opened(self, waiting: ConnectScreen, refusal: Refused) -> None:
        """Back to the list, where there is one, with the reason; else out, and the reason goes to stderr."""
        logger.warning("no session: %s (%s)", refusal.what, refusal.cause)
        if self._pick is not None:
            waiting.fail(refusal)
        else:
            self.exit(Outcome(refusal=refusal))

    async def _leave(self) -> None:
        if self._leaving:  # asked a second time: not even the demo's end is waited for
            self.exit(Outcome(self.session))
            return
        self._leaving = True
        if self._kill_on_exit and self.session is not None:
            self.notify("stopping the simulated server…")
            self._kill_and_exit(self.session)
        else:
            self.exit(Outcome(self.session))

    @work(group="leave")
    async def _kill_and_exit(self, session: SessionLike) -> None:
        try:
            await session.kill(force=True)
        except (Refused, ConnectionError, OSError) as error:
            logger.warning("the server was not stopped: %s", error)
        self.exit(Outcome(session))

    async def on_unmount(self) -> None:
        if self.session is not None:
            await self.session.close()

    async def on_start_screen_relaunched(self, event: StartScreen.Relaunched) -> None:
        """Back to the run, which is the new one now, from the screens that led to it."""
        while isinstance(self.screen, (StartScreen, RelaunchScreen, AttemptsScreen, VerdictScreen)):
            await self.pop_screen()
        self.notify(f"✓ attempt {event.run.attempt} has started", markup=False)

    # ---------------------------------------------------------------------------------------------------------- actions

    async def action_detach(self) -> None:
        await self._leave()

    async def action_quit_now(self) -> None:
        await self._leave()

    def action_palette(self) -> None:
        self.action_command_palette()

    def action_help(self) -> None:
        screen = self.screen
        if isinstance(screen, RunScreen):
            name, text = screen.focused_help
            sections = [("this screen", RunScreen.HELP), (f"the {name} panel (focused)", text)]
            self.push_screen(HelpScreen("Help", sections, in_scope(*_scopes(screen), "app")))
        elif isinstance(screen, _HELPED):
            self.push_screen(HelpScreen("Help", [("this screen", screen.HELP)], in_scope(*_scopes(screen), "app")))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what applies on this screen, and the themes."""
        for action in in_scope(*_scopes(screen), "app"):
            if action.id != "palette" and action.scope != "panel" and not action.takes_key:
                yield SystemCommand(action.label, action.help, self._runner(action, screen))
        yield SystemCommand("theme", "Choose how launchmon looks.", self.action_change_theme)

    def _runner(self, action: Action, screen: Screen[object]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self.run_action(method(action), self if action.scope == "app" else screen)

        return run


_HELPED = (HomeScreen, ConnectScreen, StacksScreen, VerdictScreen, RelaunchScreen, AttemptsScreen)
"""Screens that explain themselves as a whole."""


def _scopes(screen: Screen[Any]) -> tuple[str, ...]:
    """Which actions work on this screen, beside those that work everywhere."""
    if isinstance(screen, RunScreen):
        return "run", "panel"
    if isinstance(screen, StacksScreen):
        return "stacks", "panel"
    if isinstance(screen, VerdictScreen):
        return "verdict", "panel"
    if isinstance(screen, RelaunchScreen):
        return ("relaunch",)
    return ("ledger",) if isinstance(screen, AttemptsScreen) else ("home",)


def run_app(
    open_session: OpenSession | None,
    *,
    pick: Pick | None = None,
    attach: Attach | None = None,
    opening: str = "connecting",
    kill_on_exit: bool = False,
    theme_name: str | None = None,
    theme_dirs: Iterable[Path] = (),
    keymap: Mapping[str, str] | None = None,
) -> Outcome:
    """Run the TUI until the person leaves it. Raises :class:`Refused` where ``open_session`` does.

    An unexpected error inside ends it with a traceback on stderr and :class:`SystemExit`.
    """
    app = LaunchmonApp(
        open_session,
        pick=pick,
        attach=attach,
        opening=opening,
        kill_on_exit=kill_on_exit,
        theme_name=theme_name,
        theme_dirs=theme_dirs,
        keymap=keymap,
    )
    outcome = app.run()
    if outcome is None:
        raise SystemExit(app.return_code or 1)
    if outcome.refusal is not None:
        raise outcome.refusal
    return outcome
