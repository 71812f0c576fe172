from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.widgets import Input

from launchmon.connect import Asker
from launchmon.tui.app import LaunchmonApp
from launchmon.tui.screens.ask import AskScreen
from launchmon.tui.widgets.lines import Lines
from launchmon_agent.errors import Refused


class Login:
    """Opens no session: asks, and refuses with the answer."""

    def __init__(self, ask: Callable[[Asker], Awaitable[Any]]) -> None:
        self._ask = ask

    async def __call__(self, asker: Asker) -> Any:
        raise Refused(f"answered {await self._ask(asker)!r}")


async def run(app: LaunchmonApp, *keys: str, size: tuple[int, int] = (80, 24)) -> tuple[str, str | None]:
    """What was asked, and what the login got."""
    async with app.run_test(size=size) as pilot:
        while not isinstance(app.screen, AskScreen):
            await pilot.pause()
        await pilot.pause()
        shown = app.screen.query_one("#ask-lines", Lines).text
        await pilot.press(*keys)
        await app.workers.wait_for_complete()
    assert app.return_value is not None and app.return_value.refusal is not None
    return shown, app.return_value.refusal.what


@pytest.mark.parametrize(("keys", "expected"), [(("enter",), "answered 'sesame y'"), (("escape",), "answered None")])
async def test_an_answer_is_typed_unseen_or_left(keys: tuple[str, ...], expected: str) -> None:
    app = LaunchmonApp(Login(lambda asker: asker.ask("Password for root@gpu7:", secret=True)))
    shown, got = await run(app, *"sesame", "space", "y", *keys)
    assert "Password for root@gpu7:" in shown
    assert got == expected


async def test_only_a_secret_is_hidden() -> None:
    app = LaunchmonApp(Login(lambda asker: asker.ask("Code:", secret=False)))
    async with app.run_test() as pilot:
        while not isinstance(app.screen, AskScreen):
            await pilot.pause()
        assert not app.screen.query_one(Input).password


@pytest.mark.parametrize(
    ("key", "expected"), [("y", "answered True"), ("n", "answered False"), ("escape", "answered False")]
)
async def test_a_question_is_agreed_to_or_not(key: str, expected: str) -> None:
    question = f"gpu7 is a stranger. Its key is\nED25519 SHA256:{'x' * 43}\nConnect?"
    app = LaunchmonApp(Login(lambda asker: asker.confirm(question)))
    shown, got = await run(app, key)
    assert f"SHA256:{'x' * 43}" in shown, "a fingerprint is not broken"
    assert got == expected


async def test_one_thing_is_asked_at_a_time() -> None:
    async def both(asker: Asker) -> list[bool]:
        return list(await asyncio.gather(asker.confirm("first?"), asker.confirm("second?")))

    app = LaunchmonApp(Login(both))
    async with app.run_test() as pilot:
        while not isinstance(app.screen, AskScreen):
            await pilot.pause()
        await pilot.press("y")
        while not isinstance(app.screen, AskScreen):
            await pilot.pause()
        await pilot.pause()
        assert "second?" in app.screen.query_one("#ask-lines", Lines).text
        await pilot.press("n")
        await app.workers.wait_for_complete()
    assert app.return_value is not None and app.return_value.refusal is not None
    assert app.return_value.refusal.what == "answered [True, False]"


async def test_a_box_goes_with_who_asked() -> None:
    async def impatient(asker: Asker) -> str:
        asked = asyncio.ensure_future(asker.ask("Password:", secret=True))
        while not isinstance(app.screen, AskScreen):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        while isinstance(app.screen, AskScreen):
            await asyncio.sleep(0)
        return "nothing"

    app = LaunchmonApp(Login(impatient))
    async with app.run_test():
        await app.workers.wait_for_complete()
    assert app.return_value is not None and app.return_value.refusal is not None
    assert app.return_value.refusal.what == "answered 'nothing'"
