"""A recording as a session: moving through it, its log, and that nothing can be done to what has passed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from launchmon.replay.recorded import Recorded
from launchmon.replay.session import SPEEDS, ReplaySession
from launchmon.tui.view import View
from launchmon_agent.errors import Refused
from launchmon_agent.events import Host, Log, Run, Verdict
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.log.search import Counted, Found
from launchmon_agent.log.window import Line, Window
from tests.support.replaying import recorded, seed_lines

LINE = 10
"""Bytes of each line of the log below."""


class TenByteLines:
    """A session that reads a log of 100 lines, all there by now."""

    closed = False
    hello = None

    async def window(
        self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False
    ) -> Window:
        size = 100 * LINE
        place = size if at == "end" else int(at) // LINE * LINE
        start, end = max(0, place - before * LINE), min(size, place + after * LINE)
        lines = tuple(
            Line(offset, offset // LINE + 1, f"line {offset // LINE}", None, cut=False)
            for offset in range(start, end, LINE)
        )
        return Window(lines, start, end, start == 0, end == size, more=False, size=size, generation=0)

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> Found:
        return Found(start if forward else start - LINE, None, 0)

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> Counted:
        assert stop is not None
        return Counted((stop - start) // LINE, stop, True, 0, 0)

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        assert line is not None
        return line * LINE

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        return {"series": "s", "attempts": []}

    async def close(self) -> None:
        self.closed = True


def growing() -> Recorded:
    """Ten seconds; in each the log grows by a line."""
    return recorded(
        Run(0.0, id="r"),
        *(event for at in range(1, 11) for event in (Host(float(at)), Log(float(at), size=at * LINE))),
        Verdict(10.0, verdict="ready"),
    )


def session(log: Any = None, owns_log: bool = False) -> ReplaySession:
    return ReplaySession(growing(), "gpu7", log, owns_log=owns_log)


def test_it_opens_at_the_end() -> None:
    one = session()
    assert (one.time, one.at_end, one.playing) == (10.0, True, False)
    assert one.model.verdict is not None
    assert one.link.state == "replay"


def test_the_clock_of_the_screen_stands_where_the_recording_stands() -> None:
    one = session()
    one.to_time(3.6)
    view = View.of(one)
    assert view.now == pytest.approx(3.6)
    assert not view.stale
    assert view.read_only


def test_playing_goes_by_real_time_and_speed_and_pauses_at_the_end() -> None:
    one = session()
    one.play_or_pause()  # at the end: from the beginning
    assert (one.time, one.playing) == (0.0, True)
    one.advance(1.5)
    assert one.time == 1.5
    one.faster(2)
    assert one.speed == 4
    one.advance(1.0)
    assert one.time == 5.5
    assert one.model.host is not None
    assert one.model.host.at == 5.0
    one.advance(10.0)
    assert (one.time, one.playing, one.at_end) == (10.0, False, True)


def test_while_paused_time_stands() -> None:
    one = session()
    one.to_time(4.0)
    one.advance(100.0)
    assert one.time == 4.0


def test_speeds_end_at_both_ends() -> None:
    one = session()
    one.faster(-1)
    assert one.speed == SPEEDS[0]
    one.faster(100)
    assert one.speed == SPEEDS[-1]


def test_steps_by_events_and_seconds() -> None:
    one = session()
    one.to_time(5.0)
    one.by_events(1)
    assert one.time == 6.0
    assert one.model.log is not None
    assert one.model.log.size == 5 * LINE, "the sample of the host comes before that of the log"
    one.by_events(-1)
    assert one.time == 5.0
    one.by_seconds(-3.0)
    assert one.time == 2.0
    assert one.model.host is not None
    assert one.model.host.at == 2.0
    one.by_seconds(-300.0)
    assert one.time == 0.0
    one.by_events(-5)
    assert one.model.run is not None


def test_back_and_forth_gives_the_same_model() -> None:
    one = ReplaySession(Recorded(seed_lines()), "x")
    end, middle = one.recorded.end, one.recorded.begin + 30
    one.to_time(middle)
    first = list(one.model.replay())
    one.to_time(end)
    one.to_time(middle)
    assert list(one.model.replay()) == first
    assert one.jumps == 2


def test_marks_are_passed_one_after_the_other() -> None:
    one = ReplaySession(Recorded(seed_lines()), "x")
    one.to_time(one.recorded.begin)
    passed = []
    while (moment := one.to_moment(True)) is not None:
        passed.append(moment)
        assert one.position == moment.position
    assert passed == [one_ for one_ in one.moments if one_.position > passed[0].position - 1]
    back = []
    while (moment := one.to_moment(False)) is not None:
        back.append(moment)
    assert back == passed[-2::-1] + [one_ for one_ in reversed(one.moments) if one_.position < passed[0].position]


def test_subscribers_hear_of_each_move_until_they_stop() -> None:
    one, heard = session(), []
    stop = one.subscribe(lambda: heard.append(one.time))
    one.to_time(3.0)
    one.by_seconds(1.0)
    stop()
    one.to_time(5.0)
    assert heard == [3.0, 4.0]


async def test_the_log_ends_where_it_ended_then() -> None:
    one = session(TenByteLines())
    one.to_time(4.0)
    window = await one.window("end", 3, 0)
    assert [line.text for line in window.lines] == ["line 1", "line 2", "line 3"]
    assert (window.size, window.end, window.at_end) == (40, 40, True)
    around = await one.window(20, 1, 50)
    assert [line.offset for line in around.lines] == [10, 20, 30]
    assert around.at_end
    assert (await one.window(10, 1, 1)).at_end is False


async def test_nothing_is_found_that_was_not_written_yet() -> None:
    one = session(TenByteLines())
    one.to_time(4.0)
    assert (await one.search("x", 30, True)).offset == 30
    assert await one.search("x", 40, True) == Found(None, None, 0)
    assert (await one.search("x", 1000, False)).offset == 30
    assert (await one.count("x", 0, None)).count == 4
    assert await one.place(line=2) == 20
    assert await one.place(line=77) == 40


async def test_without_a_log_it_is_said_so() -> None:
    with pytest.raises(Refused, match="not part of this recording"):
        await session().window("end", 3, 0)


async def test_a_log_that_was_replaced_since_is_not_shown_as_that_of_then() -> None:
    recording = recorded(Run(0.0, id="r"), Log(1.0, size=50), Host(2.0), Log(3.0, size=10, generation=1))
    one = ReplaySession(recording, "x", TenByteLines())  # type: ignore[arg-type]
    assert (await one.window("end", 1, 0)).size == 10
    one.to_time(2.0)
    with pytest.raises(Refused, match="of that time is gone"):
        await one.window("end", 1, 0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda one: one.kill(force=True),
        lambda one: one.kill_plan(),
        lambda one: one.dump(),
        lambda one: one.relaunch(add=["--x"]),
        lambda one: one.relaunch_plan(),
        lambda one: one.relaunch_options(),
    ],
)
async def test_what_has_passed_cannot_be_changed(ask: Callable[[ReplaySession], Awaitable[Any]]) -> None:
    with pytest.raises(Refused, match="this is a recording"):
        await ask(session())


async def test_attempts_are_those_of_the_target_where_it_can_be_asked() -> None:
    assert (await session(TenByteLines()).ledger())["series"] == "s"
    with pytest.raises(Refused):
        await session().ledger()


@pytest.mark.parametrize("owned", [True, False])
async def test_the_session_that_reads_the_log_is_closed_by_its_owner(owned: bool) -> None:
    log = TenByteLines()
    await session(log, owns_log=owned).close()
    assert log.closed is owned
