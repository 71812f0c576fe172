"""The log panel in the app: the whole file by scrolling, searching, filtering and jumping."""

from __future__ import annotations

import pytest
from textual.events import MouseScrollUp

from launchmon.tui.log_buffer import ScreenRow
from launchmon.tui.panels.log_rows import Marks, log_row
from launchmon.tui.widgets.lines import Row
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_session as fake
from tests.support.fake_session import T0, FakeSession
from tests.support.tui_rig import Rig, running


def long_log(lines: int = 1000) -> FakeSession:
    session = fake.ready()
    session.text.replace_all()
    for number in range(lines):
        tag = f" TP{number % 2}" if number % 5 else ""
        session.text.write(f"[2025-11-29 18:00:01{tag}] line {number} of the log")
    session.sync_log(grown_at=T0)
    return session


def numbers(rig: Rig) -> list[int]:
    """Which lines are on the screen."""
    return [int(row.split("line ")[1].split()[0]) for row in rig.log_text().splitlines() if "line " in row]


def title(rig: Rig) -> str:
    return rig.text("log-title")


async def test_it_follows_what_is_written() -> None:
    async with running(long_log()) as rig:
        assert numbers(rig)[-1] == 999
        assert "follow" in title(rig)
        assert "1,000 lines" in title(rig)
        rig.session.write("[2025-11-29 18:00:02] line 1000 of the log")
        await rig.tell()
        assert numbers(rig)[-1] == 1000


async def test_only_what_has_changed_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(long_log()) as rig:
        made: list[int] = []

        def counted(row: ScreenRow, width: int, marks: Marks) -> Row:
            made.append(row.line.offset)
            return log_row(row, width, marks)

        monkeypatch.setattr("launchmon.tui.panels.log.log_row", counted)
        before = title(rig)
        rig.session.model.now += 60
        rig.run.look()
        assert made == []
        assert title(rig) != before, "the silence goes on"
        await rig.press("shift+up")
        assert made, "the pointer is shown"


async def test_scrolling_back_holds_and_reaches_the_first_line() -> None:
    async with running(long_log()) as rig:
        height = rig.log.lines.size.height
        await rig.press("up")
        assert "held" in title(rig)
        assert numbers(rig)[-1] == 998
        rig.session.write("[2025-11-29 18:00:02] line 1000 of the log")
        await rig.tell()
        assert numbers(rig)[-1] == 998
        await rig.press("pageup")
        assert numbers(rig)[-1] == 998 - (height - 1)
        for _ in range(2 + 1000 // (height - 1)):
            await rig.press("pageup")
        assert numbers(rig) == list(range(height))
        assert "0% · line 1" in title(rig)


async def test_paging_down_reaches_the_end_and_follows_again() -> None:
    async with running(long_log(300)) as rig:
        await rig.press("home")
        assert numbers(rig)[0] == 0
        seen = set(numbers(rig))
        for _ in range(40):
            await rig.press("pagedown")
            seen |= set(numbers(rig))
        assert seen == set(range(300))
        assert "follow" in title(rig)


async def test_home_and_end_go_to_either_end() -> None:
    async with running(long_log()) as rig:
        await rig.press("home", "down")
        assert numbers(rig)[0] == 1
        await rig.press("end")
        assert numbers(rig)[-1] == 999
        assert "follow" in title(rig)


async def test_the_wheel_scrolls() -> None:
    async with running(long_log()) as rig:
        await rig.pilot._post_mouse_events([MouseScrollUp], "#log-lines")
        await rig.settle()
        assert numbers(rig)[-1] == 996


async def test_search_finds_its_way_round_the_file() -> None:
    async with running(long_log()) as rig:
        await rig.press("slash", *"line 50", "space", "o", "enter")
        assert 50 in numbers(rig)
        assert "▶" in next(row for row in rig.log_text().splitlines() if "line 50 " in row)
        await rig.press("n")
        assert "from the other end" in title(rig)
        await rig.press("escape")
        assert rig.log.reader.search.pattern == ""


async def test_search_goes_forwards_and_backwards() -> None:
    async with running(long_log()) as rig:
        await rig.press("home", "slash", *"77", "enter")
        places = [rig.log.reader.pointer.current]
        for key in ("n", "n", "N", "N"):
            await rig.press(key)
            places.append(rig.log.reader.pointer.current)
        assert places[0] == places[4]
        assert places[1] == places[3]
        assert len(set(places)) == 3
        lines = {line.offset: line.text for line in rig.session.text.lines}
        assert [("77" in lines[place]) for place in places if place is not None] == [True] * 5


async def test_hits_are_toned_on_the_screen() -> None:
    async with running(long_log()) as rig:
        await rig.press("slash", *"of the", "enter")
        assert all(("of the", "hit") in row for row in rig.log.lines.rows)


async def test_search_for_an_expression() -> None:
    async with running(long_log()) as rig:
        await rig.press("slash", "ctrl+r")
        assert rig.text("log-prompt-label") == " regex/"
        await rig.press(*"line 99$|line 12", "space", "enter")
        assert 12 in numbers(rig)
        await rig.press("slash", *"(", "enter")
        assert "not a regular expression" in title(rig)


async def test_what_is_not_there_is_said() -> None:
    async with running(long_log()) as rig:
        await rig.press("n")
        assert "nothing searched yet" in title(rig)
        await rig.press("slash", *"zebra", "enter")
        assert "not found: zebra" in title(rig)
        await rig.press("slash", "escape")
        assert rig.run.focused is rig.log.lines
        await rig.press("e")
        assert "no error in the log" in title(rig)


async def test_filtering_shows_one_rank_and_all_of_it() -> None:
    async with running(long_log(200)) as rig:
        await rig.press("f")
        assert "only TP0" in title(rig)
        assert all(number % 2 == 0 and number % 5 for number in numbers(rig))
        seen = set(numbers(rig))
        for _ in range(20):
            await rig.press("pageup")
            seen |= set(numbers(rig))
        assert seen == {number for number in range(200) if number % 2 == 0 and number % 5}
        await rig.press("f")
        assert "only TP1" in title(rig)
        await rig.press("f", "f")
        assert "all ranks" in title(rig)


async def test_filtering_by_number_and_back() -> None:
    async with running(long_log()) as rig:
        await rig.press("1")
        assert "only TP1" in title(rig)
        await rig.press("1")
        assert "all ranks" in title(rig)
        await rig.press("0", "escape")
        assert "all ranks" in title(rig)
        await rig.press("7")
        assert "there is no rank 7" in title(rig)


async def test_a_filtered_log_keeps_following() -> None:
    async with running(long_log()) as rig:
        await rig.press("0")
        rig.session.write(
            "[2025-11-29 18:00:02 TP1] line 2001 of the log", "[2025-11-29 18:00:02 TP0] line 2000 of the log"
        )
        await rig.tell()
        assert numbers(rig)[-1] == 2000
        assert 2001 not in numbers(rig)


async def test_a_filtered_log_stays_where_it_was() -> None:
    async with running(long_log()) as rig:
        await rig.press("home", "pagedown", "pagedown")
        top = numbers(rig)[0]
        await rig.press("1")
        assert abs(numbers(rig)[0] - top) <= 5
        assert "held" in title(rig)


async def test_a_rank_that_wrote_nothing() -> None:
    async with running(long_log()) as rig:
        rig.log.show_rank("TP9")
        await rig.settle()
        assert "nothing from TP9" in rig.log_text()


async def test_errors_are_marked_and_can_be_walked() -> None:
    session = long_log()
    for number, severity in ((100, "fatal"), (500, "error"), (900, "warning")):
        offset = session.text.lines[number].offset
        session.model.errors.append(events.LogError(at=T0, offset=offset, severity=severity, text="boom"))
    async with running(session) as rig:
        assert "✗ 3 errors" in title(rig)
        for key, number, says in (
            ("e", 100, "error 1 of 3"),
            ("e", 500, "error 2 of 3"),
            ("e", 900, "error 3 of 3"),
            ("e", 100, "error 1 of 3, from the other end"),
            ("E", 900, "from the other end"),
            ("E", 500, "error 2 of 3"),
        ):
            await rig.press(key)
            assert says in title(rig)
            assert f"line {number} " in next(row for row in rig.log_text().splitlines() if row.startswith("▶"))
        await rig.press("end", "pageup", "pageup", "pageup")
        await rig.press("e")
        assert "error 3 of 3" in title(rig)


async def test_wrapping_and_panning() -> None:
    session = long_log(10)
    session.write("[2025-11-29 18:00:02] " + "".join(f"<{number:04}>" for number in range(50)))
    async with running(session, (80, 24)) as rig:
        assert rig.log_text().splitlines()[-1].endswith("…")
        assert "<0049>" not in rig.log_text()
        await rig.press("w")
        assert "<0049>" in rig.log_text()
        await rig.press("w", "right", "right")
        assert "<0010>" in rig.log_text()
        assert "18:00:02" not in rig.log_text()
        await rig.press("left", "left", "left")
        assert "18:00:02" in rig.log_text()


async def test_a_replaced_log_starts_again() -> None:
    async with running(long_log()) as rig:
        await rig.press("home")
        rig.session.text.replace_all()
        rig.session.write("[2025-11-29 19:00:00] line 0 of another log")
        await rig.tell()
        assert "line 0 of another log" in rig.log_text()
        assert "the log was replaced" in title(rig)


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (Refused("the log is gone", "it was deleted"), "the log is gone: it was deleted"),
        (ConnectionError("eof"), "eof"),
    ],
)
async def test_a_request_that_fails_is_said_and_what_is_shown_stays(refusal: Exception, says: str) -> None:
    async with running(long_log()) as rig:
        shown = numbers(rig)
        rig.session.refusal = refusal  # type: ignore[assignment]
        await rig.press("home")
        assert says in title(rig)
        assert numbers(rig) == shown
        rig.session.refusal = None
        await rig.press("home")
        assert numbers(rig)[0] == 0


@pytest.mark.parametrize(
    ("log", "source", "says"),
    [
        (None, "none", "attach with --log PATH"),
        (None, "file", "nothing written yet"),
        (events.Log(at=T0, error="permission denied"), "file", "! permission denied"),
    ],
)
async def test_why_there_is_no_log(log: events.Log | None, source: str, says: str) -> None:
    session = fake.empty()
    session.model.run = events.Run(at=T0, id="r", log_source=source)
    session.model.log = log
    async with running(session) as rig:
        assert says in rig.log_text()


async def test_indexing_is_told() -> None:
    session = long_log()
    async with running(session) as rig:
        session.model.log = events.Log(at=T0, size=session.text.size, lines=300, indexed=session.text.size // 4)
        await rig.tell()
        assert "indexing 25%" in title(rig)


async def test_hostile_text_is_shown_and_not_obeyed() -> None:
    session = long_log(3)
    session.write("[red]not markup[/red] \x1b[31mred\x07")
    async with running(session) as rig:
        text = rig.screen_text()
        assert "[red]not markup[/red]" in text
        assert "\x1b" not in text
        assert "\x07" not in text
