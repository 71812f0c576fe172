"""A session that loses its link at every step and finds its way back: nothing missing, nothing twice, nothing blind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchmon.connect import Barred
from launchmon.link.line import LONGEST_S
from launchmon.session import Session
from launchmon_agent import codec, events, wire
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action, Exit, Gpu, Gpus, Log, LogError, Mark, Notice, Stacks
from tests.support.curves import utilisation
from tests.support.fake_clock import FakeClock, settle
from tests.support.fake_pipe import FakePipe, Pipes, hello

RUN = {"kind": "run", "at": 10.0, "id": "r1", "pid": 7, "start_time": 5.0, "launched": True}
FOREIGN = {**RUN, "id": "pid-7", "launched": False}


class Rig:
    """A session on a pipe, with the pipes that will follow."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pipe = FakePipe(hello())
        self.pipes = Pipes(self.pipe)
        self.session: Session
        self.states: list[str] = []

    async def start(self, run: dict[str, Any] = RUN, *, attended: bool = True) -> None:
        self.session = await Session.open(self.pipes, attended=attended, clock=self.clock)
        self.session.subscribe(lambda: self.states.append(self.session.link.state))
        self.say(codec.from_body(run))
        attaching = asyncio.create_task(self.session.attach(run="r1", log="/x/log"))
        await self.pipe.answer("attach", run)
        await attaching
        await settle()

    def say(self, *said: events.Event) -> None:
        for event in said:
            self.pipe.say(codec.encode(event))

    def next_pipe(self, boot_id: str = "boot-1") -> FakePipe:
        """The pipe that the next attempt gets."""
        pipe = FakePipe(hello(boot_id=boot_id))
        self.pipes.prepare(pipe)
        return pipe

    async def lose(self) -> None:
        self.pipe.drop()
        await settle()
        assert self.session.link.state == "lost"

    async def come_back(self, *said: events.Event, run: dict[str, Any] = RUN) -> dict[str, Any]:
        """Let the next attempt succeed, whose agent says this; what it was asked to resume."""
        pipe = self.next_pipe()
        await self.clock.advance((self.session.retry_in() or 0.0) + 0.25)
        asked = await pipe.next("resume")
        for event in said:
            pipe.say(codec.encode(event))
        pipe.say(wire.reply_line(asked["id"], {"run": run, "gone": None}))
        await settle()
        assert self.session.link.state == "live"
        self.pipe = pipe
        return asked


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.session.close()


async def test_the_same_run_is_followed_again_and_nothing_counts_twice(rig: Rig) -> None:
    told = (
        Log(11.0, size=100, scanned=100, file="a-1", generation=4),
        Mark(11.0, "weights", "begin", "weights", "TP0", 20),
        LogError(11.0, rank="TP0", offset=30, id="oom", severity="error"),
        Exit(11.5, pid=9, start_time=6.0, role="scheduler"),
        Notice(11.0, source="gpu", text="no driver"),
        Stacks(12.0, id="d1"),
        Action(12.0, action="kill", id="k1", step="wait", state="doing"),
        Gpus(12.0, gpus=(Gpu(0, util_percent=7.0),)),
    )
    await rig.start()
    rig.say(*told)
    await settle()
    model = rig.session.model
    await rig.lose()
    missed = [Gpus(12.0 + n, gpus=(Gpu(0, util_percent=float(n)),)) for n in (1, 2)]
    asked = await rig.come_back(*missed, *told[:-1], missed[-1], Exit(13.0, pid=10, start_time=6.0))
    assert (asked["run"], asked["pid"], asked["start_time"], asked["since"]) == ("r1", 7, 5.0, 12.0)
    await settle()
    assert rig.session.model is model
    assert (len(model.marks("weights")), len(model.errors), len(model.notices), len(model.stacks)) == (1, 1, 1, 1)
    assert [exit_.pid for exit_ in model.exits] == [9, 10]
    assert len(model.actions["k1"]) == 1
    assert list(utilisation(model, 0)) == [7.0, 1.0, 2.0]
    assert model.log is not None and model.log.generation == 4


async def test_a_run_that_is_not_recorded_gets_a_hole_in_its_history(rig: Rig) -> None:
    await rig.start(FOREIGN)
    rig.say(Gpus(12.0, gpus=(Gpu(0, util_percent=7.0),)))
    await settle()
    await rig.lose()
    refused = Refused("no route to host")
    rig.pipes.prepare(refused)
    await rig.clock.advance(3)
    asked = await rig.come_back(run=FOREIGN)
    assert (asked["run"], asked["pid"], asked["start_time"], asked["log"]) == (None, 7, 5.0, "/x/log")
    rig.say(Gpus(17.0, gpus=(Gpu(0, util_percent=8.0),)))
    await settle()
    history = list(utilisation(rig.session.model, 0))
    assert history[0] == 7.0 and history[-1] == 8.0
    assert set(history[1:-1]) == {None} and 1 <= len(history) - 2 <= 5


async def test_the_waits_between_attempts_grow_and_are_told(rig: Rig) -> None:
    await rig.start()
    for _ in range(8):
        rig.pipes.prepare(Refused("no route to host", "the network is down"))
    await rig.lose()
    waits = []
    for _ in range(8):
        wait = rig.session.retry_in()
        assert wait is not None
        waits.append(wait)
        await rig.clock.advance(wait + 0.01)
    assert waits[0] <= 0.5 and waits[-1] <= LONGEST_S
    assert waits[-1] >= LONGEST_S * 2 / 3 and sorted(waits[:6]) == waits[:6]
    assert "the network is down" in rig.session.link.message
    with pytest.raises(Refused, match="lost") as caught:
        await rig.session.window("end", 5, 0)
    assert "being tried again" in caught.value.cause


async def test_a_silent_agent_is_asked_and_then_given_up(rig: Rig) -> None:
    rig.pipe = FakePipe(hello(), deaf=True)
    rig.pipes = Pipes(rig.pipe)
    await rig.start()
    await rig.clock.advance(7.5)
    assert rig.pipe.pings == 0
    await rig.clock.advance(2)
    assert rig.pipe.pings == 1 and rig.session.link.state == "live"
    await rig.clock.advance(9)
    assert rig.session.link.state == "lost" and "not even an answer" in rig.session.link.message
    await settle()
    assert rig.pipe.closed


async def test_an_agent_that_is_slow_to_say_something_is_not_lost(rig: Rig) -> None:
    await rig.start()
    await rig.clock.advance(60)
    assert rig.session.link.state == "live" and rig.pipe.pings >= 5
    assert "lost" not in rig.states


async def test_a_long_line_that_comes_slowly_is_a_sign_of_life(rig: Rig) -> None:
    rig.pipe = FakePipe(hello(), deaf=True)
    rig.pipes = Pipes(rig.pipe)
    await rig.start()
    for _ in range(10):
        await rig.clock.advance(5)
        rig.pipe.received += 1000
    assert rig.session.link.state == "live"


async def test_after_the_laptop_slept_a_dead_link_is_noticed_at_once(rig: Rig) -> None:
    rig.pipe = FakePipe(hello(), deaf=True)
    rig.pipes = Pipes(rig.pipe)
    await rig.start()
    await rig.clock.suspend(3600)
    assert rig.pipe.pings == 1
    await rig.clock.advance(4)
    assert rig.session.link.state == "lost"
    assert rig.session.age() > 3600


async def test_the_end_of_a_sleep_cuts_a_long_wait_short(rig: Rig) -> None:
    await rig.start()
    for _ in range(7):
        rig.pipes.prepare(Refused("no route to host"))
    await rig.lose()
    for _ in range(6):
        await rig.clock.advance((rig.session.retry_in() or 0) + 0.01)
    assert (rig.session.retry_in() or 0) > 5
    opened = rig.pipes.opened
    await rig.clock.suspend(3600)
    assert rig.pipes.opened == opened + 1


async def test_a_key_tries_at_once_also_instead_of_an_attempt_that_hangs(rig: Rig) -> None:
    await rig.start()
    await rig.lose()
    rig.session.try_now()
    await settle()
    assert rig.pipes.opened == 2 and rig.session.link.retry_at is None  # it hangs: no pipe is prepared
    rig.session.try_now()
    await settle()
    assert rig.pipes.opened == 3
    await rig.come_back()


@pytest.mark.parametrize("attended", [True, False])
async def test_what_waiting_does_not_heal_stops_the_attempts(rig: Rig, attended: bool) -> None:
    await rig.start(attended=attended)
    rig.pipes.prepare(Barred("the host key of gpu7 has changed", "somebody may listen in"))
    asking = asyncio.create_task(rig.session.window("end", 1, 0))
    await rig.pipe.next("window")
    await rig.lose()
    await rig.clock.advance(60)
    assert rig.pipes.opened == 2
    assert "host key" in rig.session.link.message
    with pytest.raises(Refused):
        await asking
    if not attended:
        assert rig.session.link.state == "ended"
        return
    assert rig.session.link.state == "lost" and rig.session.link.given_up
    rig.session.try_now()
    await rig.come_back()


async def test_a_question_that_was_cut_off_is_asked_again(rig: Rig) -> None:
    await rig.start()
    asking = asyncio.create_task(rig.session.kill_plan())
    await rig.pipe.next("kill-plan")
    await rig.lose()
    await rig.come_back()
    await rig.pipe.answer("kill-plan", {"processes": []})
    assert await asking == []


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ({"state": "done", "value": {"leftovers": []}}, None),
        ({"state": "refused", "refused": {"what": "it is being killed already"}}, "it is being killed already"),
        ({"state": "not done"}, "the kill: not done, the run is as it was"),
        ({"state": "unknown"}, "the kill: unknown whether it was done"),
    ],
)
async def test_an_action_that_was_cut_off_is_never_asked_for_again(
    rig: Rig, outcome: dict[str, Any], said: str | None
) -> None:
    await rig.start()
    killing = asyncio.create_task(rig.session.kill())
    request = await rig.pipe.next("kill")
    await rig.lose()
    await rig.come_back()
    asked = await rig.pipe.next("outcome")
    assert asked["action"] == request["action"]
    rig.pipe.drop()  # the link is lost once more, before the answer: the question is asked again
    await settle()
    await rig.come_back()
    await rig.pipe.answer("outcome", outcome)
    if said is None:
        assert await killing == {"leftovers": []}
    else:
        with pytest.raises(Refused) as caught:
            await killing
        assert caught.value.what == said
    assert rig.pipe.heard.empty()


async def test_a_launch_that_was_cut_off_is_followed_where_it_was_done(rig: Rig) -> None:
    rig.session = await Session.open(rig.pipes, clock=rig.clock)
    launching = asyncio.create_task(rig.session.launch(argv=["x"]))
    await rig.pipe.next("launch")
    await rig.lose()
    second = rig.next_pipe()
    await rig.clock.advance(1)
    second.say(codec.encode(codec.from_body(RUN)))
    await second.answer("outcome", {"state": "done", "do": "launch", "value": RUN})
    assert (await launching).id == "r1"
    rig.pipe = second
    await rig.lose()
    assert (await rig.come_back())["run"] == "r1"


async def test_an_action_is_not_begun_while_the_link_is_lost(rig: Rig) -> None:
    await rig.start()
    await rig.lose()
    with pytest.raises(Refused, match="lost"):
        await rig.session.kill()
    assert rig.pipe.heard.empty()


async def test_a_run_that_has_gone_is_said_and_what_was_known_stays(rig: Rig) -> None:
    await rig.start(FOREIGN)
    rig.say(Gpus(12.0, gpus=(Gpu(0),)))
    await rig.lose()
    pipe = rig.next_pipe()
    await rig.clock.advance(1)
    await pipe.answer("resume", {"run": None, "gone": "the server (process 7) ended while the link was down"})
    await settle()
    assert (rig.session.link.state, rig.session.link.message) == (
        "ended",
        "the server (process 7) ended while the link was down",
    )
    assert rig.session.model.gpus is not None
    assert pipe.closed
    with pytest.raises(Refused, match="ended"):
        await rig.session.window("end", 1, 0)
    with pytest.raises(Refused, match="ended"):
        await rig.session.back()


@pytest.mark.parametrize("gone", [True, False])
async def test_a_target_that_was_restarted_is_said(rig: Rig, gone: bool) -> None:
    await rig.start()
    await rig.lose()
    pipe = rig.next_pipe(boot_id="boot-2")
    await rig.clock.advance(1)
    await pipe.answer("resume", {"run": None if gone else RUN, "gone": "no such run any more" if gone else None})
    await settle()
    assert rig.session.link.state == ("ended" if gone else "live")
    assert any("restarted: its boot id" in note.text for note in rig.session.model.notices)


async def test_a_pipe_that_ends_at_every_step_of_coming_back_is_tried_again(rig: Rig) -> None:
    await rig.start()
    await rig.lose()
    silent = FakePipe(b"")  # ends before the hello
    half = FakePipe(hello())  # ends when asked to resume
    rig.pipes.prepare(silent)
    rig.pipes.prepare(half)
    await rig.clock.advance(1)
    await rig.clock.advance(2)
    await half.next("resume")
    half.drop()
    await settle()
    assert rig.session.link.state == "lost" and silent.closed and half.closed
    await rig.clock.advance(3)
    await rig.come_back()


@pytest.mark.parametrize("answer", [None, [], {}, {"gone": 7, "run": 8}, {"gone": None}])
async def test_an_answer_that_makes_no_sense_does_not_end_the_trying(rig: Rig, answer: Any) -> None:
    await rig.start()
    await rig.lose()
    odd = rig.next_pipe()
    await rig.clock.advance(1)
    await odd.answer("resume", answer)
    await settle()
    if rig.session.link.state == "lost":
        await rig.come_back()
    assert rig.session.link.state in ("live", "ended")


async def test_a_resume_that_is_never_answered_is_given_up_for_another(rig: Rig) -> None:
    await rig.start()
    await rig.lose()
    stuck = FakePipe(hello(), deaf=True)
    rig.pipes.prepare(stuck)
    await rig.clock.advance(1)
    await stuck.next("resume")
    await rig.clock.advance(18)
    assert stuck.closed
    await rig.clock.advance(1)
    await rig.come_back()


@pytest.mark.parametrize(
    ("file", "size", "generation"), [("a-1", 150, 4), ("a-1", 50, 5), ("b-2", 150, 5)], ids=["grown", "cut", "another"]
)
async def test_a_log_keeps_its_number_exactly_as_long_as_it_is_the_same_file(
    rig: Rig, file: str, size: int, generation: int
) -> None:
    await rig.start()
    rig.say(Log(11.0, size=100, file="a-1", generation=4))
    await settle()
    await rig.lose()
    await rig.come_back(Log(20.0, size=size, file=file, generation=0))
    await settle()
    assert rig.session.model.log is not None and rig.session.model.log.generation == generation
    looking = asyncio.create_task(rig.session.window("end", 1, 0))
    window = {"lines": [], "start": 0, "end": size, "at_start": True, "at_end": True, "more": False, "size": size}
    await rig.pipe.answer("window", {**window, "generation": 0})
    assert (await looking).generation == generation


async def test_the_agent_hears_from_us_although_it_says_much_itself(rig: Rig) -> None:
    await rig.start()
    for second in range(70):
        rig.say(Gpus(20.0 + second))
        await rig.clock.advance(1)
    assert rig.pipe.pings == 2


async def test_a_link_that_is_lost_again_and_again_is_tried_less_and_less(rig: Rig) -> None:
    await rig.start()
    waits = []
    for _ in range(6):
        await rig.lose()
        waits.append(rig.session.retry_in() or 0.0)
        await rig.come_back()
    assert sorted(waits) == waits and waits[-1] > 8
    await rig.clock.advance(30)
    await rig.lose()
    assert (rig.session.retry_in() or 0.0) <= 0.5


async def test_closing_ends_a_session_whose_link_is_lost(rig: Rig) -> None:
    await rig.start()
    await rig.lose()
    await rig.session.close()
    assert rig.session.link.state == "ended"


async def test_freshness_counts_from_what_was_heard_last(rig: Rig) -> None:
    await rig.start()
    await rig.clock.advance(3)
    rig.say(Gpus(20.0))
    await rig.lose()
    rig.pipes.prepare(Refused("no route to host"))
    await rig.clock.advance(10)
    assert rig.session.age() == pytest.approx(10, abs=0.5)
