"""The log panel in the app: counts, filters by level and text, places, bookmarks, copies, folds, the pager."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator

import pytest
from textual.app import App

from launchmon.tui import log_pager
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_session as fake
from tests.support.fake_session import T0, FakeSession
from tests.support.tui_rig import Rig, running


def long_log(lines: int = 1000) -> FakeSession:
    """Every tenth line has a warning, every hundredth an error."""
    session = fake.ready()
    session.text.replace_all()
    for number in range(lines):
        kind = "Error: " if number % 100 == 50 else "Warning: " if number % 10 == 5 else ""
        session.text.write(
            f"[2025-11-29 18:{number // 60:02d}:{number % 60:02d} TP{number % 2}] {kind}line {number} end"
        )
    session.sync_log(grown_at=T0)
    return session


def numbers(rig: Rig) -> list[int]:
    return [int(row.split("line ")[1].split()[0]) for row in rig.log_text().splitlines() if "line " in row]


def pointed(rig: Rig) -> str:
    return next((row for row in rig.log_text().splitlines() if row.startswith("▶")), "")


def title(rig: Rig) -> str:
    return rig.text("log-title")


# --------------------------------------------------------------------------------------------------------------- counts


async def test_a_search_says_which_of_how_many_lines_it_is_at() -> None:
    async with running(long_log()) as rig:
        await rig.press("home", "slash", *"Error", "enter")
        assert "/Error 1 of 10" in title(rig)
        for key, says in (("n", "2 of 10"), ("n", "3 of 10"), ("N", "2 of 10"), ("N", "1 of 10"), ("N", "10 of 10")):
            await rig.press(key)
            assert f"/Error {says}" in title(rig)


async def test_a_search_back_finds_the_last_line_before() -> None:
    async with running(long_log()) as rig:
        await rig.press("backslash", *"Error", "enter")
        assert "line 950 " in pointed(rig)
        assert "/Error 10 of 10" in title(rig)


async def test_the_count_of_an_expression() -> None:
    async with running(long_log()) as rig:
        await rig.press("slash", "ctrl+r", *"line .00 ", "enter")
        assert "1 of 9" in title(rig)


async def test_counting_goes_on_in_slices_and_with_the_log() -> None:
    session = long_log()
    session.count_most = 300
    async with running(session) as rig:
        await rig.press("slash", *"Error", "enter")
        assert "/Error 1 of 10" in title(rig)
        assert len(session.counted) >= 4
        session.write("[2025-11-29 18:20:00 TP0] Error: line 1000 end")
        await rig.tell()
        assert "/Error 1 of 11" in title(rig)


async def test_a_search_does_not_wait_for_its_count_and_a_new_one_ends_it() -> None:
    session = long_log()
    session.count_gate = asyncio.Event()
    async with running(session) as rig:
        for text in ("Error", "Warning"):
            rig.log.reader.search_for(text, False)
            rig.log._count()
            rig.log.find_next(True)
            for _ in range(20):
                await asyncio.sleep(0)
        await rig.pilot._wait_for_screen()
        assert rig.log.reader.search.told == "/Warning counting"
        assert "Warning" in pointed(rig)
        session.count_gate.set()
        await rig.settle()
        assert "/Warning 5 of 100" in title(rig)
        assert session.counted.count("Error") == 1  # it had begun, and was not asked for again


async def test_a_search_among_filtered_lines_counts_only_those() -> None:
    async with running(long_log()) as rig:
        await rig.press("home", "slash", *"line", "enter", "l")
        assert "warnings and errors" in title(rig)
        assert "/line 110 ·" in title(rig)
        await rig.press("n", "n")
        assert "2 of 110" in title(rig)


async def test_a_pattern_that_is_no_expression_is_said_once() -> None:
    async with running(long_log()) as rig:
        await rig.press("slash", "ctrl+r", *"(", "enter")
        assert "not a regular expression" in title(rig)
        assert "/( " in title(rig)


# -------------------------------------------------------------------------------------------------------------- filters


async def test_the_level_filter_goes_round() -> None:
    async with running(long_log()) as rig:
        await rig.press("l")
        assert all(number % 10 == 5 or number % 100 == 50 for number in numbers(rig))
        assert "warnings and errors" in title(rig)
        await rig.press("l")
        assert numbers(rig) == list(range(50, 1000, 100))
        assert "errors only" in title(rig)
        await rig.press("l")
        assert numbers(rig)[-1] == 999


async def test_filtering_by_text_and_taking_it_away() -> None:
    async with running(long_log()) as rig:
        await rig.press("ampersand", *"line 99", "enter")
        assert numbers(rig) == [99, *range(990, 1000)]
        assert "&line 99" in title(rig)
        await rig.press("ampersand", "enter")
        assert "&" not in title(rig)
        await rig.press("ampersand", "ctrl+r", *"line .7 ", "enter")
        assert numbers(rig) == [17, 27, 37, 47, 57, 67, 77, 87, 97]


async def test_escape_takes_one_thing_after_the_other() -> None:
    async with running(long_log()) as rig:
        await rig.press("1", "l", "ampersand", *"line", "enter", "slash", *"end", "enter")
        for gone in ("/end", "&line", "warnings and errors", "only TP1"):
            assert gone in title(rig)
            await rig.press("escape")
            assert gone not in title(rig)


async def test_nothing_passes_a_filter() -> None:
    async with running(long_log()) as rig:
        await rig.press("ampersand", *"zebra", "enter")
        assert "no line passes the filter" in rig.log_text()


async def test_the_line_pointed_at_stays_in_its_row() -> None:
    async with running(long_log()) as rig:
        await rig.press("colon", *"700", "enter", "shift+down", "shift+down")
        before = rig.log_text().splitlines().index(pointed(rig))
        for key in ("R", "R", "x", "x"):
            await rig.press(key)
            assert rig.log_text().splitlines().index(pointed(rig)) == before


# --------------------------------------------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("typed", "number"),
    [("500", 499), ("1,000", 999), ("50%", 500), ("18:05:00", 300), ("weights", 200), ("we", 200), ("error", 50)],
)
async def test_going_to_a_place(typed: str, number: int) -> None:
    session = long_log()
    lines = session.text.lines
    session.model.all_marks.append(events.Mark(T0, "w", "begin", "weights", "TP0", lines[200].offset))
    session.model.errors.append(events.LogError(T0, "TP0", lines[50].offset, "x", "error", "boom"))
    async with running(session) as rig:
        await rig.press("colon", *typed, "enter")
        assert abs(int(pointed(rig).split("line ")[1].split()[0]) - number) <= (1 if typed == "50%" else 0)
        assert "held" in title(rig)


@pytest.mark.parametrize(
    ("typed", "says"),
    [("99999", "the log has no line"), ("zebra", "'zebra' is no place"), ("traceback", "there is no traceback")],
)
async def test_a_place_that_is_none_is_said(typed: str, says: str) -> None:
    async with running(long_log()) as rig:
        shown = numbers(rig)
        await rig.press("colon", *typed, "enter")
        assert says in title(rig)
        assert numbers(rig) == shown


async def test_the_first_error_and_the_first_traceback_of_any_rank() -> None:
    session = long_log()
    lines = session.text.lines
    for place, severity, text in (
        (100, "warning", "slow"),
        (200, "fatal", "Killed"),
        (300, "fatal", "Scheduler hit an exception: Traceback (most recent call last):"),
        (400, "error", "Traceback (most recent call last):"),
    ):
        session.model.errors.append(events.LogError(T0, "TP1", lines[place].offset, "x", severity, text))
    async with running(session) as rig:
        await rig.press("exclamation_mark")
        assert "line 200 " in pointed(rig)
        assert "the first of 3 errors" in title(rig)
        await rig.press("end", "t")
        assert "line 300 " in pointed(rig)
        assert "traceback 1 of 2" in title(rig)
        await rig.press("t")
        assert "line 400 " in pointed(rig)


async def test_errors_that_a_filter_hides_are_walked_too() -> None:
    session = long_log()
    for place in (101, 301, 501):
        session.model.errors.append(events.LogError(T0, "TP1", session.text.lines[place].offset, "x", "error", "boom"))
    async with running(session) as rig:
        await rig.press("0", "end")
        for number in (1, 2, 3):
            await rig.press("e")
            assert f"error {number} of 3, hidden by the filter" in title(rig)


async def test_walking_the_phases() -> None:
    session = long_log()
    for place, phase, what in (
        (0, "start", "info"),
        (100, "weights", "begin"),
        (140, "weights", "end"),
        (600, "graphs", "begin"),
    ):
        mark = events.Mark(T0, phase, what, phase, "TP0", session.text.lines[place].offset)
        session.model.all_marks.append(mark)
    async with running(session) as rig:
        await rig.press("home")
        for key, number, says in (
            ("right_curly_bracket", 100, "weights · phase 2 of 3"),
            ("right_curly_bracket", 600, "graphs · phase 3 of 3"),
            ("left_curly_bracket", 100, "weights · phase 2 of 3"),
        ):
            await rig.press(key)
            assert f"line {number} " in pointed(rig)
            assert says in title(rig)


async def test_no_phase_no_error_no_bookmark() -> None:
    async with running(long_log()) as rig:
        for key, says in (
            ("right_curly_bracket", "no phase has begun"),
            ("t", "no traceback"),
            ("exclamation_mark", "no error"),
            ("u", "no bookmark"),
            ("Y", "no bookmark"),
        ):
            await rig.press(key)
            assert says in title(rig)


# ------------------------------------------------------------------------------------------- pointer, bookmarks, copies


async def test_bookmarks_are_set_walked_and_copied() -> None:
    async with running(long_log()) as rig:
        await rig.press("colon", *"101", "enter", "m", "colon", *"901", "enter", "m")
        assert "◆ 2" in title(rig)
        await rig.press("home", "u")
        assert "line 100 " in pointed(rig)
        assert "bookmark 1 of 2" in title(rig)
        await rig.press("u")
        assert "line 900 " in pointed(rig)
        await rig.press("U", "l", "Y")
        copied = rig.app.clipboard.splitlines()
        assert [line.split("line ")[1] for line in copied] == ["100 end", "900 end"]
        await rig.press("l", "l", "colon", *"101", "enter", "m", "shift+down")
        assert "◆ 1" in title(rig)
        assert "◆" not in rig.log_text()


async def test_the_pointer_moves_and_the_screen_follows() -> None:
    async with running(long_log()) as rig:
        await rig.press("shift+up")
        assert "line 999 " in pointed(rig)
        assert "held" in title(rig)
        height = rig.log.lines.size.height
        await rig.press(*["shift+up"] * (height + 3))
        assert f"line {999 - height - 3} " in pointed(rig)
        await rig.press("y")
        assert rig.app.clipboard.endswith(f"line {999 - height - 3} end")
        assert "copied 1 line" in title(rig)


async def test_a_click_points() -> None:
    async with running(long_log()) as rig:
        await rig.pilot.click("#log-lines", offset=(5, 2))
        await rig.settle()
        assert pointed(rig) == rig.log_text().splitlines()[2]


async def test_without_a_pointer_the_screen_is_copied() -> None:
    async with running(long_log()) as rig:
        await rig.press("y")
        height = rig.log.lines.size.height
        assert [line.split("line ")[1] for line in rig.app.clipboard.splitlines()] == [
            f"{number} end" for number in range(1000 - height, 1000)
        ]


async def test_places_are_forgotten_with_the_log() -> None:
    async with running(long_log()) as rig:
        await rig.press("m", "slash", *"Error", "enter")
        assert "1 of 10" in title(rig)
        rig.session.text.replace_all()
        rig.session.write("[2025-11-29 19:00:00 TP0] Error: line 0 of another log")
        await rig.tell()
        await rig.tell()
        assert "◆" not in title(rig)
        assert "/Error 1" in title(rig)


# ---------------------------------------------------------------------------------------------------------- folds, raw


def ranks_log() -> FakeSession:
    session = fake.ready()
    session.text.replace_all()
    for step in range(100):
        for rank in range(8):
            session.text.write(f"[2025-11-29 18:00:{step % 60:02d} TP{rank}] step {step} of the load")
    session.sync_log(grown_at=T0)
    return session


async def test_lines_of_eight_ranks_fold_into_one() -> None:
    async with running(ranks_log()) as rig:
        await rig.press("x")
        rows = rig.log_text().splitlines()
        height = rig.log.lines.size.height
        assert "folded" in title(rig)
        assert [row.split("] ")[1] for row in rows] == [
            f"×8 step {step} of the load" for step in range(100 - height, 100)
        ]
        await rig.press("home", "pagedown")
        assert rig.log_text().splitlines()[0].endswith(f"×8 step {height - 1} of the load")
        await rig.press("x")
        assert "×8" not in rig.log_text()


async def test_a_search_takes_a_folded_line_as_one() -> None:
    async with running(ranks_log()) as rig:
        await rig.press("home", "x", "slash", *"step 5", "enter")
        assert "step 5 of" in pointed(rig)
        await rig.press("n")
        assert "step 50 of" in pointed(rig)
        await rig.press("n")
        assert "step 51 of" in pointed(rig)
        await rig.press("slash", *"step 77", "enter", "n")
        assert "no other hit" in title(rig)


async def test_raw_lines() -> None:
    async with running(long_log()) as rig:
        await rig.press("R")
        assert "raw [2025" in rig.log_text()
        assert " raw " in title(rig)
        await rig.press("R")
        assert "raw" not in rig.log_text()


# ---------------------------------------------------------------------------------------------------------------- pager


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """What the pager was given: the path, the content, the offset. The terminal is lent without asking."""
    seen: list[tuple[str, str, int]] = []

    @contextlib.contextmanager
    def suspend(_app: App[object]) -> Iterator[None]:
        yield

    def show(_words: list[str], document: log_pager.Document, _environment: object) -> None:
        with open(document.path, encoding="utf-8") as file:
            seen.append((document.path, file.read(), document.offset))

    monkeypatch.setattr(App, "suspend", suspend)
    monkeypatch.setattr(log_pager, "show", show)
    return seen


async def test_the_pager_gets_the_file_itself_where_it_is_here(
    shown: list[tuple[str, str, int]], tmp_path: object
) -> None:
    session = long_log()
    session.local_log = f"{tmp_path}/server.log"
    with open(session.local_log, "w", encoding="utf-8") as file:
        file.write("the file\n")
    async with running(session) as rig:
        await rig.press("colon", *"501", "enter", "o")
        assert shown == [(session.local_log, "the file\n", session.text.lines[500].offset)]


async def test_the_pager_gets_what_is_around_the_screen_from_another_machine(
    shown: list[tuple[str, str, int]],
) -> None:
    async with running(long_log(5000)) as rig:
        await rig.press("colon", *"2501", "enter", "o")
        ((path, text, offset),) = shown
        lines = text.splitlines()
        assert [lines[0].split("line ")[1], lines[-1].split("line ")[1]] == ["1500 end", "3499 end"]
        assert text[offset:].splitlines()[0].endswith("line 2500 end")
        with pytest.raises(FileNotFoundError):
            os.stat(path)


async def test_where_the_terminal_cannot_be_lent_it_is_said() -> None:
    async with running(long_log()) as rig:
        await rig.press("o")
        assert "the pager cannot be opened here" in title(rig)


async def test_a_refused_pager_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_environment: object) -> list[str]:
        raise Refused("there is no pager")

    monkeypatch.setattr(log_pager, "pager", none)
    async with running(long_log()) as rig:
        await rig.press("o")
        assert "there is no pager" in title(rig)
