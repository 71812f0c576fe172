"""The main screen over a recording, and looking back on a run that goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launchmon.actions import in_scope
from launchmon.replay.moments import Moment
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon.tui.panels.timeline import HERE, said, track
from launchmon.tui.screens.replay import ReplayScreen, footer_actions
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.screens.stacks import StacksScreen
from launchmon.tui.screens.verdict import VerdictScreen
from launchmon.tui.widgets.lines import row_width
from launchmon_agent.errors import Refused
from tests.support import fake_session as fake
from tests.support.replaying import seed_lines
from tests.support.tui_rig import Rig, running

SIZES = ((60, 18), (80, 24), (120, 40), (200, 60))


def replay(at: float | None = None) -> ReplaySession:
    """The dead-locked demo, ``at`` seconds into its recording; None: its end."""
    session = ReplaySession(Recorded(seed_lines()), "this machine")
    if at is not None:
        session.to_time(session.recorded.begin + at)
    return session


def said_aside(rig: Rig) -> str:
    """What the notices in the corner say."""
    return "\n".join(notice.message for notice in rig.app._notifications)


def into(session: ReplaySession) -> float:
    return round(session.time - session.recorded.begin, 1)


# ------------------------------------------------------------------------------------------------------------- drawing


@pytest.mark.parametrize("size", SIZES)
async def test_the_moment_and_that_it_is_none_of_now_are_on_every_screen(size: tuple[int, int]) -> None:
    async with running(replay(60), size) as rig:  # type: ignore[arg-type]
        text = rig.screen_text()
        assert " REPLAY " in text.splitlines()[0]
        assert HERE in text.splitlines()[1]
        assert "00:01:00 of 00:02:17" in text.splitlines()[1]
        assert "DEAD-LOCK · silent" in text
        assert "read-only" not in text
        assert all(len(row.rstrip()) <= size[0] for row in text.splitlines())


async def test_all_panels_are_as_they_were_then() -> None:
    async with running(replay(15)) as rig:  # type: ignore[arg-type]
        text = rig.screen_text()
        assert "READING" in text
        assert "◉ weights" in text
        assert "DEAD-LOCK" not in text


def test_the_track_has_its_marks_and_the_most_telling_of_those_on_one_cell() -> None:
    marks = [Moment(0.0, 1, "phase", "start"), Moment(50.0, 2, "dump", "x"), Moment(50.1, 3, "trouble", "deadlock")]
    row = track(marks, 0.0, 100.0, 25.0, 41)
    text = "".join(span for span, _ in row)
    assert text == "┼" + "━" * 9 + HERE + "─" * 9 + "✗" + "─" * 20


@pytest.mark.parametrize("cells", [1, 2, 10])
def test_a_recording_of_one_moment_has_a_track(cells: int) -> None:
    assert row_width(track([Moment(5.0, 1, "phase", "start")], 5.0, 5.0, 5.0, cells)) == cells


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_what_was_and_what_comes_fits_the_line(width: int) -> None:
    marks = [Moment(1.0, 1, "error", "TP1: " + "x" * 300), Moment(9.0, 2, "exit", "TP1 ended with -9")]
    assert row_width(said(marks, 1, 0.0, width)) <= width


# -------------------------------------------------------------------------------------------------------------- moving


async def test_keys_move_through_the_marks_and_the_panels_follow() -> None:
    session = replay(0)
    async with running(session) as rig:  # type: ignore[arg-type]
        while session.model.verdict is None or session.model.verdict.verdict != "deadlock-silent":
            await rig.press("right_square_bracket")
        assert "DEAD-LOCK" in rig.text("verdict") or "8 of 8 ranks" in rig.text("verdict")
        assert "✗ 00:00:46 deadlock-silent" in rig.text("timeline")
        await rig.press("left_square_bracket")
        assert "8 of 8 ranks have done nothing" not in rig.text("verdict")


async def test_keys_step_by_seconds_and_events_and_to_both_ends() -> None:
    session = replay(30)
    async with running(session) as rig:  # type: ignore[arg-type]
        await rig.press("greater_than_sign", "greater_than_sign", "less_than_sign")
        assert into(session) == 31.0
        position = session.position
        await rig.press("full_stop", "full_stop", "comma")
        assert session.position == position + 1
        await rig.press("left_parenthesis")
        assert into(session) == 0.0
        await rig.press("right_parenthesis")
        assert session.at_end
        await rig.press("right_square_bracket")
        assert session.at_end


async def test_playing_moves_the_screen_and_space_pauses() -> None:
    session, now = replay(0), [1000.0]
    async with running(session) as rig:  # type: ignore[arg-type]
        screen = rig.run
        assert isinstance(screen, ReplayScreen)
        screen._clock = lambda: now[0]
        screen._tick()
        await rig.press("plus", "plus", "space")
        assert session.playing
        assert "▶ ×4" in rig.text("timeline")
        now[0] += 5.0
        screen._tick()
        await rig.settle()
        assert into(session) == 20.0
        assert "◉ weights" in rig.text("rail")
        await rig.press("space")
        assert not session.playing
        now[0] += 5.0
        screen._tick()
        assert into(session) == 20.0
        await rig.press("minus")
        assert "‖ ×2" in rig.text("timeline")


async def test_a_time_is_typed_and_a_wrong_one_can_be_corrected() -> None:
    session = replay(0)
    async with running(session) as rig:  # type: ignore[arg-type]
        await rig.press("at", *"soon", "enter")
        screen = rig.app.screen
        assert isinstance(screen, ReplayScreen)
        assert into(session) == 0.0
        assert screen.query_one("#replay-prompt").has_class("-open")
        for _ in "soon":
            await rig.press("backspace")
        await rig.press(*"1m", "enter")
        assert into(session) == 60.0
        assert not screen.query_one("#replay-prompt").has_class("-open")


async def test_a_click_on_the_line_moves_there() -> None:
    session = replay(0)
    async with running(session) as rig:  # type: ignore[arg-type]
        row = rig.text("timeline").splitlines()[0]
        await rig.pilot.click("#timeline", offset=(row.index("✗"), 0))
        await rig.settle()
        assert 44 <= into(session) <= 48


# -------------------------------------------------------------------------------------------------- what cannot be done


@pytest.mark.parametrize("key", ["k", "r"])
async def test_nothing_can_be_changed(key: str) -> None:
    async with running(replay()) as rig:  # type: ignore[arg-type]
        await rig.press(key)
        assert isinstance(rig.app.screen, ReplayScreen)
        assert "This is a recording" in said_aside(rig)


async def test_stacks_are_those_of_then_and_none_are_read() -> None:
    session = replay(38)
    async with running(session) as rig:  # type: ignore[arg-type]
        await rig.press("d")
        assert isinstance(rig.app.screen, StacksScreen)
        text = rig.screen_text()
        assert "dump 1 of 1" in text
        assert "init_memory_pool" in text
        assert "this is a recording" not in text


async def test_the_verdict_of_then_is_shown_whole() -> None:
    async with running(replay(60)) as rig:  # type: ignore[arg-type]
        await rig.press("v")
        assert isinstance(rig.app.screen, VerdictScreen)
        assert "8 of 8 ranks have done nothing" in rig.screen_text()


def test_the_footer_offers_nothing_that_changes_a_run() -> None:
    for live in (True, False):
        offered = footer_actions(live=live)
        assert not any(action.changes for action in offered)
        assert {action.id for action in in_scope("replay")} <= {action.id for action in offered}
        assert any(action.label == "live" for action in offered) is live


async def test_without_anything_live_it_is_said_so() -> None:
    async with running(replay()) as rig:  # type: ignore[arg-type]
        await rig.press("ctrl+r")
        assert isinstance(rig.app.screen, ReplayScreen)
        assert "nothing live beneath it" in said_aside(rig)


# --------------------------------------------------------------------------------------------------- a run that goes on


async def looking_back(rig: Rig) -> ReplayScreen:
    await rig.press("ctrl+r")
    await rig.settle()
    screen = rig.app.screen
    assert isinstance(screen, ReplayScreen)
    return screen


async def test_a_live_run_is_looked_back_on_and_left_again() -> None:
    session = fake.seed()
    session.recorded = seed_lines()
    async with running(session) as rig:
        screen = await looking_back(rig)
        screen.replay.to_time(screen.replay.recorded.begin + 15)
        await rig.settle()
        assert "READING" in rig.screen_text()
        await rig.press("k")
        assert "This is a recording" in said_aside(rig)
        await rig.press("ctrl+r")
        assert type(rig.app.screen) is RunScreen
        assert "● live" in rig.screen_text()


async def test_the_log_of_a_live_run_ends_where_it_ended_then() -> None:
    session = fake.seed()
    session.recorded = seed_lines()
    session.text.replace_all()
    session.text.generation = 0
    session.write(*(f"[2026-11-29 21:22:{number % 60:02d} TP0] written line {number}" for number in range(2000)))
    async with running(session) as rig:
        screen = await looking_back(rig)
        replayed = screen.replay
        replayed.to_time(replayed.recorded.begin + 10)
        await rig.settle()
        screen.look()
        await rig.settle()
        log = replayed.model.log
        assert log is not None
        shown = (await replayed.window("end", 1, 0)).lines[0]
        assert shown.offset < log.size
        assert shown.text in rig.screen_text()
        assert "written line 1999" not in rig.screen_text()


async def test_a_run_without_a_recording_says_why_it_cannot_be_looked_back_on() -> None:
    session = fake.seed()
    async with running(session) as rig:
        session.refusal = Refused("nothing is recorded", "the disk was full")
        await rig.press("ctrl+r")
        await rig.settle()
        assert type(rig.app.screen) is RunScreen
        assert "no past to look back on: nothing is recorded (the disk was full)" in said_aside(rig)


async def test_a_report_is_written_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = fake.seed()
    session.recorded = seed_lines()
    async with running(session) as rig:
        await rig.press("s", "s")
        await rig.settle()
        written = sorted(os.listdir(tmp_path))
        assert "launchmon-report-20261129-212149-demo-seed.md" in written
        assert "launchmon-report-20261129-212149-demo-seed.tar.gz" in written
        assert "hidden:" in said_aside(rig)
