"""The app on a fake session, with words for what a person does and sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import patch

from textual._compositor import Compositor
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

_ROUNDS = 10
"""Of messages that bring others about; few take more than two."""

CHARACTERS = {"slash": "/", "question_mark": "?", "exclamation_mark": "!", "space": " "}


class Rig:
    """An app under test, with words for what a person does and sees."""

    def __init__(self, app: LaunchmonApp, pilot: Pilot[Outcome], session: FakeSession) -> None:
        self.app, self.pilot, self.session = app, pilot, session

    async def settle(self) -> None:
        """All messages are handled, all requests are answered and all that follows from them is painted.

        Goes by what the event loop has to do, where ``Pilot.pause`` waits for the process to be idle: surer, and much
        faster. What only time brings (a timer, the screen's next second) is not waited for.
        """
        for _ in range(_ROUNDS):
            if self._handling():
                await self.pilot._wait_for_screen()
            await self.app.workers.wait_for_complete()
            await _nothing_ready()
            self.app.screen._on_timer_update()
            if not (_ready() or self._handling() or any(not worker.is_finished for worker in self.app.workers)):
                break
        _PAINT(self.app.screen._compositor, screen_stack=self.app._background_screens)

    def _handling(self) -> bool:
        """Whether a message waits anywhere, or its handler for something: then nobody takes the next from its queue."""
        nodes = (self.app, *self.app.screen.walk_children(with_self=True))
        return any(node._running and not node._message_queue.ready_event._waiters for node in nodes)

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


_PAINT = Compositor.render_update


@contextmanager
def painted_when_settled() -> Iterator[None]:
    """Nobody sees what an app paints between; what is to be painted anew is kept until :meth:`Rig.settle`."""
    with patch.object(Compositor, "render_update", _keep):
        yield


def _keep(compositor: Compositor, **_: Any) -> None:
    """In the place of painting: there is no update."""


def _ready() -> bool:
    """Whether the event loop has anything to do now but the caller."""
    return bool(asyncio.get_running_loop()._ready)  # type: ignore[attr-defined]


async def _nothing_ready() -> None:
    """All that can go on without time, another thread or another process has gone on."""
    await asyncio.sleep(0)
    while _ready():
        await asyncio.sleep(0)


@asynccontextmanager
async def running(
    session: FakeSession, size: tuple[int, int] = (120, 40), config: Config = PLAIN
) -> AsyncIterator[Rig]:
    async def open_session(_: Asker) -> FakeSession:
        return session

    app = LaunchmonApp(open_session, settings=Effective(config))
    with painted_when_settled():
        async with app.run_test(size=size) as pilot:
            rig = Rig(app, pilot, session)
            await rig.settle()
            rig.run.look()
            await rig.settle()
            yield rig
