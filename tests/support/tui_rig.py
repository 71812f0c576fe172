"""The app on a fake session, with words for what a person does and sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.events import Key
from textual.pilot import Pilot

from launchmon.config import Config, Effective
from launchmon.connect import Asker
from launchmon.tui.app import LaunchmonApp, Outcome
from launchmon.tui.panels.log import LogPanel
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.widgets.lines import Lines
from tests.support.fake_session import FakeSession

PLAIN = Config(theme="launchmon-dark", glyphs="unicode", remember_layout=False)
"""Depends on nothing around the test."""

CHARACTERS = {"slash": "/", "question_mark": "?", "exclamation_mark": "!", "space": " "}


class Rig:
    """An app under test, with words for what a person does and sees."""

    def __init__(self, app: LaunchmonApp, pilot: Pilot[Outcome], session: FakeSession) -> None:
        self.app, self.pilot, self.session = app, pilot, session

    async def settle(self) -> None:
        """All messages are handled, all requests are answered and all that follows from them is painted.

        Counted by messages, where ``Pilot.pause`` waits for the process to be idle: surer, and much faster.
        """
        for _ in range(3):
            await self.pilot._wait_for_screen()
            await self.app.workers.wait_for_complete()
            self.app.screen._on_timer_update()

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.app.post_message(Key(key, CHARACTERS.get(key, key if len(key) == 1 else None)))
            await self.settle()

    async def tell(self) -> None:
        """The session has changed, and the screen's next second has come."""
        self.session.changed()
        self.run.look()
        await self.settle()

    @property
    def run(self) -> RunScreen:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, RunScreen))

    @property
    def log(self) -> LogPanel:
        return self.run.log_panel

    def text(self, id_: str) -> str:
        return self.app.screen.query_one(f"#{id_}", Lines).text

    def screen_text(self) -> str:
        """What is painted, row by row."""
        width, height = self.app.size
        rows = self.app.screen._compositor.render_strips()
        assert len(rows) == height
        text = ["".join(segment.text for segment in strip) for strip in rows]
        assert all(len(row) >= width for row in text)
        return "\n".join(text)

    def log_text(self) -> str:
        return self.log.lines.text


@asynccontextmanager
async def running(
    session: FakeSession, size: tuple[int, int] = (120, 40), config: Config = PLAIN
) -> AsyncIterator[Rig]:
    async def open_session(_: Asker) -> FakeSession:
        return session

    app = LaunchmonApp(open_session, settings=Effective(config))
    async with app.run_test(size=size) as pilot:
        rig = Rig(app, pilot, session)
        await rig.settle()
        rig.run.look()
        await rig.settle()
        yield rig
