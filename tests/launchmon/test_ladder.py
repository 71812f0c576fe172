"""The ladder on a fake session: which change comes next, from which command, and what ends it."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from launchmon.ladder import Climb, Ladder
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_relaunch
from tests.support import fake_session as fake
from tests.support.client import eventually
from tests.support.fake_session import FakeSession


def decide(session: FakeSession, kind: str, confidence: str = "high") -> None:
    session.model.verdict = events.Verdict(at=session.model.now, verdict=kind, confidence=confidence)
    session.changed()


def by_hand() -> FakeSession:
    session = fake.seed()
    assert session.model.run is not None
    session.model.run = dataclasses.replace(session.model.run, launched=False)
    return session


@pytest.mark.parametrize("session", [fake.seed(), by_hand()], ids=["launched", "by hand"])
async def test_each_attempt_is_the_first_one_s_command_with_one_remedy(session: FakeSession) -> None:
    first = session.model.run
    assert first is not None
    climb = asyncio.create_task(Ladder(session).climb())
    for count in (1, 2):
        await eventually(lambda count=count: len(session.relaunched) == count)  # type: ignore[misc]
        decide(session, "crashed")
    end = await climb
    assert (end.ready, end.reason) == (False, "no remedy is left to try")
    one, two = session.relaunched
    assert (one["add"], two["add"]) == (("--disable-cuda-graph",), ("--disable-custom-all-reduce",))
    assert (one["set"], two["set"]) == ({}, {"NCCL_P2P_DISABLE": "1"})
    assert two["back_to"] == first.id
    assert one["back_to"] == (first.id if first.launched else None)


async def test_a_remedy_that_sglang_does_not_take_is_passed_over_and_said() -> None:
    session = fake.seed()
    session.options = fake_relaunch.options(remedies=((("--no-such",), "", ""), *fake_relaunch.REMEDIES))
    said: list[str] = []
    ladder = Ladder(session, said.append)
    climb = asyncio.create_task(ladder.climb())
    await eventually(lambda: session.relaunched)
    decide(session, "ready")
    assert await climb == Climb(True, "ready", ("--disable-cuda-graph",))
    assert any(text.startswith("left out --no-such: ") for text in said)
    assert [text for _, text in ladder.said] == said and not ladder.climbing


async def test_limits_end_it() -> None:
    session = fake.seed()
    climb = asyncio.create_task(Ladder(session).climb(attempts=1))
    await eventually(lambda: session.relaunched)
    decide(session, "deadlock-silent")
    assert (await climb).reason == "not ready after 1 relaunches"

    decide(session, "deadlock-silent", confidence="low")  # it may still move
    end = await Ladder(session).climb(seconds=0.0)
    assert end.reason == "no verdict that decides within 0 minutes" and len(session.relaunched) == 1


async def test_one_climb_at_a_time_and_the_end_of_the_session_ends_it() -> None:
    session = fake.seed()
    decide(session, "starting")
    ladder = Ladder(session)
    climb = asyncio.create_task(ladder.climb())
    await eventually(lambda: ladder.climbing)
    with pytest.raises(Refused, match="climbed already"):
        await ladder.climb()
    session.link = fake.FakeLink("ended", "the network is down")
    session.changed()
    with pytest.raises(Refused, match="not followed any more"):
        await climb
    assert ladder.end == Climb(False, "the run is not followed any more: the network is down") and not ladder.climbing
