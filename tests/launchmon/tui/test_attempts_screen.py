"""The ledger on its screen: every key, every size, and back to an attempt."""

from __future__ import annotations

import asyncio

import pytest

from launchmon.actions import in_scope
from launchmon.tui.screens.attempts import AttemptsScreen
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.kill import KillScreen
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.widgets.pager import Pager
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_relaunch
from tests.support import fake_session as fake
from tests.support.client import eventually
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


def listed(screen: RelaunchScreen) -> str:
    return "\n".join("".join(text for text, _ in row) for row in screen.query_one("#relaunch-list", Pager).body)


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
        assert "NCCL_DEBUG=WARN" in listed(screen) and "SGLANG_FIRST=1" in listed(screen)
        assert "SGLANG_OLD" not in listed(screen), "of the present attempt"
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


# ---------------------------------------------------------------------------------------------------------- the ladder


def decide(session: fake.FakeSession, kind: str, summary: str = "") -> None:
    session.model.verdict = events.Verdict(at=session.model.now, verdict=kind, confidence="high", summary=summary)


async def climbing(rig: Rig) -> AttemptsScreen:
    await rig.press("r", "l")
    await rig.pilot.press("y")
    await eventually(lambda: isinstance(rig.app.screen, AttemptsScreen))
    screen = rig.app.screen
    assert isinstance(screen, AttemptsScreen)
    return screen


def steps(screen: AttemptsScreen) -> str:
    screen.look()
    return "\n".join("".join(text for text, _ in row) for row in screen.query_one("#attempts-ladder", Pager).body)


async def test_the_ladder_says_what_it_would_try_and_asks() -> None:
    session = fake.seed()
    async with running(session, (80, 24)) as rig:
        await rig.press("r", "l")
        text = rig.text("ladder-lines")
        for words in (
            "1 + --disable-cuda-graph",
            "2 + --disable-custom-all-reduce + NCCL_P2P_DISABLE=1",
            "At most 5 relaunches",
        ):
            assert words in text, words
        await rig.press("escape")
        assert isinstance(rig.app.screen, RelaunchScreen)
        assert session.relaunched == []


async def test_the_ladder_climbs_until_a_launch_is_ready_and_shows_its_steps() -> None:
    session = fake.seed()
    async with running(session) as rig:
        screen = await climbing(rig)
        await eventually(lambda: len(session.relaunched) == 1)
        assert session.relaunched[0]["add"] == ("--disable-cuda-graph",)
        await eventually(lambda: "waiting for a verdict that decides" in steps(screen))
        assert "relaunch with --disable-cuda-graph" in steps(screen)

        decide(session, "crashed", "TP1 ran out of memory.")
        session.changed()
        await eventually(lambda: len(session.relaunched) == 2)
        assert session.relaunched[1]["back_to"] == session.relaunched[0]["back_to"], "each from the first's command"
        assert session.relaunched[1]["add"] == ("--disable-custom-all-reduce",)
        assert "crashed: TP1 ran out of memory." in steps(screen)

        decide(session, "ready")
        session.changed()
        await eventually(lambda: "ready with --disable-custom-all-reduce, NCCL_P2P_DISABLE=1" in steps(screen))
        assert "waiting" not in steps(screen)


async def test_one_key_stops_the_ladder_and_the_attempt_goes_on() -> None:
    session = fake.seed()
    gate = session.relaunch_gate = asyncio.Event()
    async with running(session) as rig:
        screen = await climbing(rig)
        await eventually(lambda: len(session.relaunched) == 1)
        await eventually(lambda: "ending the attempt before, and starting this one" in steps(screen))
        await rig.pilot.press("s")
        await eventually(lambda: "then it stops" in steps(screen))
        gate.set()
        await rig.settle()
        assert "stopped" in steps(screen)
        decide(session, "crashed")
        await rig.tell()
        assert len(session.relaunched) == 1 and session.killed == []
        await rig.press("s")
        assert len(session.relaunched) == 1


async def test_while_a_ladder_is_climbed_nothing_else_changes_the_run() -> None:
    session = fake.seed()
    async with running(session) as rig:
        await climbing(rig)
        await eventually(lambda: len(session.relaunched) == 1)
        await rig.pilot.press("escape", "k")
        assert isinstance(rig.app.screen, RunScreen), "no dialog that asks for a kill"
        await rig.pilot.press("a")
        assert isinstance(rig.app.screen, AttemptsScreen)
        await rig.pilot.press("s")
        await rig.settle()
        await rig.press("escape", "k")
        assert isinstance(rig.app.screen, KillScreen)


async def test_without_a_remedy_there_is_no_ladder() -> None:
    session = fake.ready()
    session.options = fake_relaunch.options(remedies=())
    async with running(session) as rig:
        await rig.press("r", "l")
        assert isinstance(rig.app.screen, RelaunchScreen)


async def test_what_ends_a_ladder_is_said() -> None:
    session = fake.seed()
    session.relaunch_refusal = Refused("GPU 3 has 40 GiB in use", "process 7 holds it", "kill 7")
    async with running(session) as rig:
        screen = await climbing(rig)
        await rig.settle()
        assert "GPU 3 has 40 GiB in use: process 7 holds it" in steps(screen)
