"""The whole verdict on its screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launchmon.actions import in_scope
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.screens.stacks import StacksScreen
from launchmon.tui.screens.verdict import VerdictScreen
from launchmon_agent import events
from tests.support import fake_session as fake
from tests.support.fake_session import FakeLink, FakeSession
from tests.support.tui_rig import Rig, running


def long_one() -> FakeSession:
    session = fake.seed()
    verdict = session.model.verdict
    assert verdict is not None
    session.model.verdict = replace(
        verdict,
        blames=("TP3", "TP5"),
        evidence=tuple(events.Evidence(f"gauge {number}", f"{number} % of what it could be") for number in range(40)),
        next=(
            events.Next("relaunch", ("--disable-cuda-graph",), "cures this kind of wait", "sglang issue 1234"),
            events.Next("wait", (), "NCCL gives up in 5m02s"),
        ),
    )
    session.model.notices.append(events.Notice(at=fake.T0, source="kernel", text="dmesg may not be read"))
    return session


async def opened(rig: Rig) -> VerdictScreen:
    await rig.press("v")
    screen = rig.app.screen
    assert isinstance(screen, VerdictScreen)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
@pytest.mark.parametrize("scenario", sorted(fake.SCENARIOS))
async def test_it_fits_in_every_state(scenario: str, size: tuple[int, int]) -> None:
    session = fake.SCENARIOS[scenario]()
    async with running(session, size) as rig:
        await opened(rig)
        text = rig.screen_text()
        verdict = session.model.verdict
        assert (verdict.summary[:30] if verdict else "No verdict yet") in text
        assert "Esc back" in text


async def test_everything_is_there_in_the_order_of_use() -> None:
    async with running(long_one(), (200, 60)) as rig:
        screen = await opened(rig)
        await rig.press("end", "home")
        text = rig.text("verdict-all")
        assert text.startswith("▸✗ DEAD-LOCK · silent · high confidence")
        await rig.pilot.resize_terminal(100, 200)
        await rig.settle()
        screen.look()
        text = rig.text("verdict-all")
        words = (
            "8 of 8 ranks have done nothing",
            "LOOK FIRST AT",
            "TP3,5",
            "1 relaunch --disable-cuda-graph",
            "cures this kind of wait",
            "source: sglang issue 1234",
            "2 wait",
            "gauge 39  39 % of what it could be",
            "RULED OUT",
            "compile  0 compilers",
            "NOT KNOWN",
            "stacks: ptrace refused",
            "kernel: dmesg may not be read",
        )
        places = [text.index(each) for each in words]
        assert places == sorted(places)


async def test_it_scrolls() -> None:
    async with running(long_one(), (80, 24)) as rig:
        await opened(rig)
        assert "gauge 39" not in rig.text("verdict-all")
        assert " ▾" in rig.text("verdict-all")
        await rig.press("end")
        assert "dmesg may not be read" in rig.text("verdict-all")
        await rig.press("pageup", "up", "pagedown", "down", "home")
        assert "8 of 8 ranks" in rig.text("verdict-all")


async def test_it_follows_the_run() -> None:
    async with running(fake.loading()) as rig:
        await opened(rig)
        rig.session.model.verdict = events.Verdict(at=fake.T0, verdict="crashed", summary="TP3 has ended.")
        rig.session.changed()
        assert "TP3 has ended." in rig.text("verdict-all")
        assert "CRASHED" in rig.text("verdict-all")


@pytest.mark.parametrize("key", ["escape", "v"])
async def test_back_to_the_run(key: str) -> None:
    async with running(fake.seed()) as rig:
        await opened(rig)
        await rig.press(key)
        assert isinstance(rig.app.screen, RunScreen)


async def test_the_stacks_are_one_key_away_and_come_back_here() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        await rig.press("d")
        assert isinstance(rig.app.screen, StacksScreen)
        await rig.press("escape")
        assert rig.app.screen is screen


async def test_help_and_every_key() -> None:
    async with running(long_one(), (120, 60)) as rig:
        screen = await opened(rig)
        await rig.press("question_mark")
        assert isinstance(rig.app.screen, HelpScreen)
        assert "All that the verdict rests on" in rig.text("help-text")
        await rig.press("escape")
        for action in in_scope("panel"):
            await rig.press(*action.keys)
        assert rig.app.screen is screen


async def test_a_lost_link_dates_it() -> None:
    async with running(fake.seed()) as rig:
        screen = await opened(rig)
        rig.session.link, rig.session.since_event = FakeLink("lost"), 12.0
        screen.look()
        assert "lost 12 s ago" in rig.text("verdict-header")
