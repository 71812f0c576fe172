"""The ledger on its screen: every key, every size, and back to an attempt."""

from __future__ import annotations

import pytest

from launchmon.actions import in_scope
from launchmon.tui.screens.attempts import AttemptsScreen
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.widgets.pager import Pager
from launchmon_agent.errors import Refused
from tests.support import fake_relaunch
from tests.support import fake_session as fake
from tests.support.tui_rig import Rig, running


async def opened(rig: Rig, *keys: str) -> AttemptsScreen:
    await rig.press("a")
    await rig.settle()
    await rig.press(*keys)
    screen = rig.app.screen
    assert isinstance(screen, AttemptsScreen)
    return screen


def row_of(rig: Rig, number: int) -> str:
    return next(line for line in rig.text("attempts-list").splitlines() if f"{number} " in line[:9])


def detail(screen: AttemptsScreen) -> str:
    return "\n".join("".join(text for text, _ in row) for row in screen.query_one("#attempts-detail", Pager).body)


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40), (200, 60)])
async def test_attempts_stand_beside_each_other(size: tuple[int, int]) -> None:
    async with running(fake.seed(), size) as rig:
        await opened(rig)
        assert "★1" in row_of(rig, 1)
        assert "1m05s" in row_of(rig, 1)
        assert row_of(rig, 3).startswith(" ▶")
        text = rig.screen_text()
        for words in ("3 attempts of kimi", "ready in", "ATTEMPT 3", "Enter relaunch from here", "Esc back"):
            assert words in text, words


async def test_each_has_its_change_phases_verdict_and_exit() -> None:
    async with running(fake.seed(), (200, 60)) as rig:
        screen = await opened(rig)
        assert all(words in row_of(rig, 1) for words in ("the first", "ready", "22s", "16s", "SERVING", "killed"))
        assert all(words in row_of(rig, 2) for words in ("+ --mem-fraction-static 0.95", "18s", "CRASHED", "-9"))
        assert all(words in row_of(rig, 3) for words in ("kv pool", "4m58s", "DEAD-LOCK", "lives"))
        assert "for 5m00s so far" in detail(screen)
        assert "changed since it last worked (attempt 1):\n   - --tp 4\n   + --mem-fraction-static 0.8" in detail(
            screen
        )
        await rig.press("up")
        assert "TP1 ran out of memory." in detail(screen)
        assert "exit code -9" in detail(screen)
        await rig.press("up", "up")
        assert "stopped by launchmon" in detail(screen)


async def test_enter_goes_back_to_an_attempt() -> None:
    session = fake.seed()
    async with running(session) as rig:
        await opened(rig, "up", "up")
        await rig.press("enter")
        screen = rig.app.screen
        assert isinstance(screen, RelaunchScreen)
        text = rig.screen_text()
        assert "RELAUNCH attempt 1" in text
        assert "REMEDIES" not in text, "they are against the verdict of another run"
        assert "--tp 4" in rig.text("relaunch-list")
        assert "~ --tp-size 8 → 4" in rig.text("relaunch-plan")
        assert "- --enable-symm-mem-x" in rig.text("relaunch-plan")
        await rig.press("enter", "y")
        assert [one["back_to"] for one in session.relaunched] == ["run-1"]
        assert isinstance(rig.app.screen, RunScreen)


async def test_from_the_present_attempt_it_is_the_usual_dialog() -> None:
    session = fake.seed()
    async with running(session) as rig:
        await opened(rig)
        await rig.press("r")
        assert "REMEDIES" in rig.text("relaunch-list")
        assert session.planned[-1]["back_to"] is None


async def test_it_is_read_again_where_something_has_happened() -> None:
    session = fake.seed()
    async with running(session) as rig:
        screen = await opened(rig)
        before = session.requests
        await rig.tell()
        assert session.requests == before, "nothing has happened"
        session.attempts["attempts"].append(fake_relaunch.attempt(4, summary="Just begun.", alive=True))
        session.model.phases.reach(4.2, 6.1, 9.0, 22.3, 2.0)
        await rig.tell()
        assert "4 attempts" in rig.text("attempts-list")
        await rig.press("down")
        assert "Just begun." in detail(screen)


async def test_a_run_without_a_ledger_says_why() -> None:
    session = fake.seed()
    async with running(session, (80, 24)) as rig:
        session.refusal = Refused(
            "no attempts are recorded", "this run was not launched by launchmon", "launchmon runs"
        )
        await opened(rig, "enter", "y", "down", "up", "pagedown")
        assert "✗ no attempts are recorded" in rig.screen_text()
        await rig.press("escape")
        assert isinstance(rig.app.screen, RunScreen)


async def test_the_command_is_copied_and_read_only_starts_nothing() -> None:
    session = fake.seed()
    session.read_only = True
    async with running(session) as rig:
        await opened(rig, "up", "y", "enter")
        assert rig.app.clipboard.endswith("--attempt 2")
        assert isinstance(rig.app.screen, AttemptsScreen)


async def test_a_click_selects() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        await rig.pilot.click("#attempts-list", offset=(4, 3))
        await rig.settle()
        assert "TP1 ran out of memory." in detail(screen)


@pytest.mark.parametrize("scenario", sorted(fake.SCENARIOS))
async def test_every_key_works_in_every_state(scenario: str) -> None:
    async with running(fake.SCENARIOS[scenario](), (80, 24)) as rig:
        for action in in_scope("ledger"):
            for key in action.keys:
                if isinstance(rig.app.screen, RunScreen):
                    await rig.press("a")
                assert isinstance(rig.app.screen, AttemptsScreen)
                await rig.press(key)
                if isinstance(rig.app.screen, RelaunchScreen):
                    await rig.press("escape")


async def test_help_lists_its_keys() -> None:
    async with running(fake.seed(), (120, 60)) as rig:
        await rig.press("a", "question_mark")
        assert isinstance(rig.app.screen, HelpScreen)
        for action in in_scope("ledger"):
            assert action.help.split()[0] in rig.text("help-text")
