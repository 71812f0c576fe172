"""Every key in the footer, in every state that it is shown in: it does something, or says why not."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from launchmon.actions import Action
from launchmon.tui.panels.footer import FooterBar
from tests.support.scenes import SCENES, Scene, shown
from tests.support.still import take
from tests.support.tui_rig import Rig

SIZE = (200, 40)
"""Wide enough for every key that any terminal shows."""

WITH_A_PROMPT = ("log-prompt", "relaunch-add")
"""There, keys are text."""

WALKED = [scene for scene in SCENES if scene.name not in WITH_A_PROMPT]


class Walk:
    """One scene, pressed key by key. Each key finds the screen on which it is shown; ``left``: it asked to leave."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.base: Screen[Any] = rig.app.screen
        self.session = rig.app.session
        self.left = 0
        rig.app.exit = self._exit  # type: ignore[method-assign]
        notify = rig.app.notify  # what is said stays until it has been looked at, however slow the machine
        rig.app.notify = lambda *what, **how: notify(*what, **{**how, "timeout": 3600})  # type: ignore[method-assign]

    def _exit(self, *_: object, **__: object) -> None:
        self.left += 1

    @property
    def there(self) -> bool:
        app = self.rig.app
        return self.base in app.screen_stack and app.session is self.session and not self.left

    def shown(self) -> list[Action]:
        footers = list(self.base.query(FooterBar))
        return [action for _, _, action in footers[0]._places] if footers else []

    def state(self) -> tuple[object, ...]:
        """All that a person or the target notices of a key."""
        app = self.rig.app
        said = [notice.message for notice in app._notifications]
        return (app.screen, app.focused, take(app).rows, said, self.rig.session.requests, self.left)

    async def press(self, action: Action) -> bool:
        """Whether anything came of it."""
        before = self.state()
        await self.rig.press(action.keys[0])
        return self.state() != before

    async def back(self) -> None:
        """To the screen of the scene, without a prompt."""
        app = self.rig.app
        while self.there and app.screen is not self.base:
            app.pop_screen()
            await self.rig.settle()
        if self.there and isinstance(app.focused, Input):
            await self.rig.press("escape")
        app.clear_notifications()
        await self.rig.settle()


@pytest.mark.parametrize("scene", WALKED, ids=lambda scene: scene.name)
async def test_every_key_of_the_footer_does_something(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    todo: list[Action] | None = None
    dead = []
    while todo is None or todo:
        async with shown(scene, SIZE) as rig:
            walk = Walk(rig)
            if todo is None:
                todo = walk.shown()
                assert todo or rig.app.screen.is_modal or scene.name == "home-refused"
            while todo and walk.there:  # what leaves the screen makes a new one necessary
                action = todo.pop(0)
                if not await walk.press(action):
                    dead.append(f"{action.shown_keys} {action.label}")
                await walk.back()
    assert dead == []
    failures = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert failures == []


async def test_a_key_without_effect_is_noticed() -> None:
    async with shown(WALKED[0], SIZE) as rig:
        walk = Walk(rig)
        nothing = Action("nothing", ("f12",), "nothing", "Does nothing.", "run", 1)
        assert not await walk.press(nothing)
