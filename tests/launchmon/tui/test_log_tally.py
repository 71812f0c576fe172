"""Counts of a search, without a screen."""

from __future__ import annotations

import asyncio

from launchmon.tui.log_tally import Tally
from launchmon_agent.log.only import EVERYTHING
from tests.support import fake_session as fake
from tests.support.fake_session import FakeSession


def logged(*texts: str) -> FakeSession:
    session = fake.empty()
    session.write(*texts)
    return session


def tally_of(session: FakeSession, changes: list[str] | None = None) -> Tally:
    told: list[str] = [] if changes is None else changes
    tally = Tally(session, "hit", regex=False, only=EVERYTHING, changed=lambda: told.append(str(tally)))
    return tally


async def test_it_tells_how_far_it_is() -> None:
    session = logged(*["hit", "miss"] * 50)
    session.count_most = 25
    told: list[str] = []
    tally = tally_of(session, told)
    assert str(tally) == "counting"
    await tally.run()
    assert told == ["13… 25%", "25… 50%", "38… 75%", "50"]


async def test_the_place_of_a_line_is_known_as_soon_as_counting_has_passed_it() -> None:
    session = logged(*["hit", "miss"] * 50)
    session.count_most = 25
    told: list[str] = []
    tally = tally_of(session, told)
    tally.current = session.text.offsets[60]
    await tally.run()
    assert told == ["13… 25%", "25… 50%", "31 of 38… 75%", "31 of 50"]


async def test_another_line_while_it_counts() -> None:
    session = logged(*["hit"] * 100)
    session.count_most = 25
    session.count_gate = asyncio.Event()
    tally = tally_of(session)
    tally.current = 0
    running = asyncio.create_task(tally.run())
    await asyncio.sleep(0)
    tally.current = session.text.offsets[42]
    session.count_gate.set()
    await running
    assert str(tally) == "43 of 100"


async def test_a_place_is_not_told_of_another_line() -> None:
    session = logged("hit", "hit")
    tally = tally_of(session)
    tally.current = 0
    await tally.run()
    assert str(tally) == "1 of 2"
    tally.current = session.text.offsets[1]
    assert str(tally) == "2"
    await tally.run()
    assert str(tally) == "2 of 2"
    tally.current = None
    await tally.run()
    assert str(tally) == "2"


async def test_a_line_behind_the_end_is_not_waited_for() -> None:
    session = logged("hit")
    tally = tally_of(session)
    tally.current = 10**6
    await tally.run()
    assert str(tally) == "1"


async def test_a_replaced_log_is_counted_from_its_beginning() -> None:
    session = logged("hit", "hit", "hit")
    tally = tally_of(session)
    await tally.run()
    session.text.replace_all()
    session.write("hit")
    await tally.run()
    assert str(tally) == "1"
