"""The application: opens a session or lets a person pick one, and shows it."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual import work
from textual.actions import ActionParseResult, parse
from textual.app import App, SystemCommand
from textual.dom import DOMNode
from textual.filter import LineFilter
from textual.screen import Screen

from launchmon import config
from launchmon.actions import Action, in_scope
from launchmon.cluster.session import ClusterSession
from launchmon.config import Effective
from launchmon.connect import Asker
from launchmon.ladder import Ladder
from launchmon.listed import Found, Place
from launchmon.replay.session import ReplaySession
from launchmon.session_like import SessionLike
from launchmon.tui import attention, glyphs, job_control, theme
from launchmon.tui.beginning import Beginnings
from launchmon.tui.bindings import bindings, bound, method
from launchmon.tui.looking_back import LookBack
from launchmon.tui.own_themes import OwnThemes
from launchmon.tui.screens.ask import ScreenAsker
from launchmon.tui.screens.attempts import AttemptsScreen
from launchmon.tui.screens.connect import ConnectScreen
from launchmon.tui.screens.described import DescribedScreen
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.home import HomeScreen, Places
from launchmon.tui.screens.launch import LaunchScreen
from launchmon.tui.screens.nodes import NodesScreen
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.screens.replay import ReplayScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.screens.start import StartScreen
from launchmon.tui.screens.verdict import VerdictScreen
from launchmon.tui.widgets.dialog import Dialog
from launchmon_agent.errors import Refused

logger = logging.getLogger("launchmon.tui")

THEMES_LOOK_S = 2.0
"""How often a person's own themes are looked at for changes."""

OpenSession = Callable[[Asker], Awaitable[SessionLike]]
Attach = Callable[[Found, Asker], Awaitable[SessionLike]]
PickRuns = Callable[[Asker], Awaitable[Sequence[Found]]]
PickThere = Callable[[Place, Asker], Awaitable[Sequence[Found]]]
"""A login may ask, also when a lost link is made again: as long as the session lasts."""


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
        pick: PickRuns | None = None,
        there: str | None = None,
        places: Places | None = None,
        pick_there: PickThere | None = None,
        attach: Attach | None = None,
        beginnings: Beginnings = Beginnings(),  # noqa: B008  (frozen)
        opening: str = "connecting",
        kill_on_exit: bool = False,
        settings: Effective = Effective(),  # noqa: B008  (frozen)
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """``open_session`` is awaited at once; without it ``pick`` lists runs and ``attach`` opens one of them.

        ``there`` names the machine where those are, if it is another one. ``places`` lists other machines too, and
        ``pick_there`` the runs on one of them.

        ``kill_on_exit`` stops the server when the person leaves: for a demo, which nobody wants to keep.
        """
        # Without colours only styles are sent. Textual would send greys, unless the colours are the terminal's own.
        super().__init__(ansi_color=True if environment.get("NO_COLOR") else None)
        if open_session is None and (pick is None or attach is None):
            raise ValueError("without open_session, both pick and attach are needed")
        self._open_session = open_session
        self._pick = pick
        self._there = there
        self._places = places
        self._pick_there = pick_there
        self._attach_found = attach
        self._beginnings = beginnings
        self._opening = opening
        self._kill_on_exit = kill_on_exit
        self._leaving = False
        self.session: SessionLike | None = None
        self.ladder: Ladder | None = None  # of the session
        self.config = settings.config
        self.keys = settings.config.keys
        self._problems = list(settings.problems)
        moves = self.config.animation == "local" and not any(environment.get(name) for name in _SSH)
        self.animation_level = "basic" if moves else "none"
        drawn = self.config.glyphs if self.config.glyphs != "auto" else glyphs.fitting(environment)
        self._ascii = [glyphs.AsciiFilter()] if drawn == glyphs.ASCII else []
        for loaded in theme.load_all():
            self.register_theme(loaded)
        self._own_themes = OwnThemes(config.directory(environment) / "themes")
        self._wear(environment)
        self.set_keymap({id_: ",".join(keys) for id_, keys in self.config.keys.items()})

    def _wear(self, environment: Mapping[str, str]) -> None:
        """The theme that was asked for, else one that fits the terminal."""
        self._take_own_themes()
        wanted = self.config.theme
        if wanted != "auto" and wanted not in self.available_themes:
            near = config.nearest(wanted, self.available_themes)
            self._problems.append(f"there is no theme {wanted!r}{near}")
            wanted = "auto"
        self.theme = theme.fitting(environment) if wanted == "auto" else wanted

    def _take_own_themes(self) -> None:
        """Register what is new in the person's directory; the one that is worn is put on again."""
        themes, problems = self._own_themes.changed()
        self._problems += problems
        for loaded in themes:
            self.register_theme(loaded)
            if loaded.name == self.theme:
                self.mutate_reactive(LaunchmonApp.theme)

    def _look_at_themes(self) -> None:
        self._take_own_themes()
        self._tell_problems()

    def _tell_problems(self) -> None:
        for problem in self._problems:
            self.notify(f"! {problem}", severity="warning", timeout=20, markup=False)
        self._problems.clear()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._ascii]

    def on_mount(self) -> None:
        job_control.on_the_loop()
        self._tell_problems()
        self.set_interval(THEMES_LOOK_S, self._look_at_themes)
        if self.config.terminal_title:
            attention.send(self, attention.SAVE_TITLE)
        if self._open_session is not None:
            self._open(self._open_session)
        elif self._pick is not None:
            asker = ScreenAsker(self)
            begin = self._beginnings.offered
            self.push_screen(HomeScreen(partial(self._pick, asker), self._places, there=self._there, begin=begin))

    def on_home_screen_chosen(self, event: HomeScreen.Chosen) -> None:
        opener = self._attach_found
        if opener is not None:
            self._open(lambda asker: opener(event.found, asker))

    def on_home_screen_elsewhere(self, event: HomeScreen.Elsewhere) -> None:
        pick_there, place = self._pick_there, event.place
        if pick_there is not None:
            pick = partial(pick_there, place, ScreenAsker(self))
            begin = [what for what in self._beginnings.offered if what == "launch"]
            self.push_screen(HomeScreen(pick, there=place.label, place=place, begin=begin))

    def on_home_screen_wanted(self, event: HomeScreen.Wanted) -> None:
        launcher, demo = self._beginnings.launcher, self._beginnings.demo
        if event.what == "launch" and launcher is not None:
            self.push_screen(LaunchScreen(partial(launcher, event.place, ScreenAsker(self))))
        elif event.what == "demo" and demo is not None:
            self._open(partial(self._begin_demo, demo), "starting the demo")

    async def _begin_demo(self, demo: Callable[[], Awaitable[SessionLike]], _: Asker) -> SessionLike:
        session = await demo()
        self._kill_on_exit = True  # not before: after a refusal a run that is no demo may be picked
        return session

    def on_launch_screen_agreed(self, event: LaunchScreen.Agreed) -> None:
        async def start(_: Asker) -> SessionLike:
            session = await event.start()
            event.screen.handed_over()
            return session

        self._open(start, "starting the server")

    @work(exclusive=True, group="open")
    async def _open(self, opener: OpenSession, what: str | None = None) -> None:
        waiting = ConnectScreen(what or self._opening)
        await self.push_screen(waiting)
        try:
            self.session = await opener(ScreenAsker(self))
        except Refused as refusal:
            self._not_opened(waiting, refusal)
        except (ConnectionError, OSError) as error:
            self._not_opened(waiting, Refused("the run could not be opened", str(error), "launchmon doctor"))
        else:
            self.ladder = Ladder(self.session)
            await self.switch_screen(self._screen_of(self.session, self.ladder))

    def _screen_of(self, session: SessionLike, ladder: Ladder) -> RunScreen:
        if isinstance(session, ReplaySession):
            return ReplayScreen(session, ladder, self.config)
        if isinstance(session, ClusterSession):
            return NodesScreen(session, ladder, self.config)
        return RunScreen(session, ladder, self.config)

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
        if self.config.terminal_title:
            attention.send(self, attention.RESTORE_TITLE)
        if self.session is not None:
            await self.session.close()

    async def on_start_screen_relaunched(self, event: StartScreen.Relaunched) -> None:
        """The run that is followed is the new one now."""
        await self._back_to_run()
        self.notify(f"✓ attempt {event.run.attempt} has started", markup=False)

    async def on_ladder_screen_agreed(self) -> None:
        if self.session is not None and self.ladder is not None and not self.ladder.climbing:
            await self._back_to_run()
            self._climb(self.ladder)
            await self.push_screen(AttemptsScreen(self.session, self.ladder))

    @work(group="ladder", exit_on_error=False)
    async def _climb(self, ladder: Ladder) -> None:
        try:
            await ladder.climb()
        except (Refused, ConnectionError, OSError) as error:
            logger.warning("the ladder was left: %s", error)
        end = ladder.end
        if end is not None:
            words = f"{'✓' if end.ready else '✗'} The ladder has ended: {end.words}"
            self.notify(words, severity="information" if end.ready else "warning", timeout=20, markup=False)
        if isinstance(self.screen, AttemptsScreen):
            self.screen.look()

    async def on_look_back(self, event: LookBack) -> None:
        """The run as it was, over the run."""
        await self.push_screen(ReplayScreen(event.replay, Ladder(event.replay), self.config, live=True))

    async def _back_to_run(self) -> None:
        """From the screens that lead to a relaunch."""
        while isinstance(self.screen, (Dialog, RelaunchScreen, AttemptsScreen, VerdictScreen)):
            await self.pop_screen()

    # ---------------------------------------------------------------------------------------------------------- actions

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """The one way to every action, from a key, the footer or the palette; what may not be done is refused here."""
        why = self._unchangeable
        if why is not None:
            _, name, _ = parse(action) if isinstance(action, str) else action
            refused = next(
                (row for row in in_scope(*_scopes(self.screen)) if row.changes and method(row) == name), None
            )
            if refused is not None:
                self.notify(f"{why}: {refused.label} is not done from here.", severity="warning")
                return True
        return await super().run_action(action, default_namespace, namespaces)

    @property
    def _unchangeable(self) -> str | None:
        """Why a person may change nothing on the target now."""
        if isinstance(getattr(self.screen, "session", None), ReplaySession):
            return "This is a recording"
        if self.config.read_only if self.session is None else self.session.read_only:
            return "This session is read-only"
        if self.ladder is not None and self.ladder.climbing:
            return "The ladder is being climbed (a shows it, and s there stops it)"
        return None

    async def action_detach(self) -> None:
        await self._leave()

    async def action_quit_now(self) -> None:
        await self._leave()

    def action_reconnect(self) -> None:
        if self.session is None or self.session.link.state != "lost":
            self.notify("No link is lost.")
        else:
            self.session.try_now()

    def action_palette(self) -> None:
        self.action_command_palette()

    def action_help(self) -> None:
        screen = self.screen
        if isinstance(screen, DescribedScreen):
            sections = [("this screen", screen.HELP)]
            name, text = screen.focused_help
            if text:
                sections.append((f"the {name} panel (focused)", text))
            self.push_screen(HelpScreen("Help", sections, bound(self, *screen.SCOPES, "app")))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what applies on this screen, and the themes."""
        for action in bound(self, *_scopes(screen), "app"):
            if action.id != "palette" and action.scope != "panel" and not action.takes_key:
                told = f"{action.help} ({action.shown_keys})"
                yield SystemCommand(action.label, told, self._runner(action, screen))
        yield SystemCommand("theme", "Choose how launchmon looks.", self.action_change_theme)

    def _runner(self, action: Action, screen: Screen[object]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self.run_action(method(action), self if action.scope == "app" else screen)

        return run


_SSH = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")


def _scopes(screen: Screen[Any]) -> tuple[str, ...]:
    """Which actions work on this screen, beside those that work everywhere."""
    return screen.SCOPES if isinstance(screen, DescribedScreen) else ()


def run_app(
    open_session: OpenSession | None,
    *,
    settings: Effective = Effective(),  # noqa: B008  (frozen)
    **how: Any,
) -> Outcome:
    """Run the TUI until the person leaves it; ``how`` is for :class:`LaunchmonApp`.

    Raises :class:`Refused` where ``open_session`` does. An unexpected error inside ends it with a traceback on stderr
    and :class:`SystemExit`.
    """
    app = LaunchmonApp(open_session, settings=settings, **how)
    outcome = app.run(mouse=settings.config.mouse)
    if outcome is None:
        raise SystemExit(app.return_code or 1)
    if outcome.refusal is not None:
        raise outcome.refusal
    return outcome
