"""A session over a pipe that the test holds: requests, events, and every way in which the agent can go."""

from __future__ import annotations

import asyncio

import pytest

from launchmon.session import Session
from launchmon_agent import codec, wire
from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpu, Gpus, Run
from tests.support.fake_pipe import FakePipe, Pipes, hello


async def test_events_make_the_model_and_wake_subscribers() -> None:
    pipe = FakePipe(hello())
    session = await Session.open(Pipes(pipe))
    woken = asyncio.Event()
    leave = session.subscribe(woken.set)
    pipe.say(codec.encode(Gpus(5.0, gpus=(Gpu(0, util_percent=7.0),))))
    await woken.wait()
    assert session.model.gpus is not None and session.model.now == 5.0
    assert session.link.state == "live"
    leave()
    await session.close()
    assert session.link.state == "ended"


async def test_replies_find_their_requests_in_any_order() -> None:
    pipe = FakePipe(hello())
    session = await Session.open(Pipes(pipe))
    first = asyncio.create_task(session.request("one"))
    second = asyncio.create_task(session.request("two"))
    numbers = [(await pipe.heard.get())["id"] for _ in range(2)]
    pipe.say(wire.reply_line(numbers[1], "second"))
    pipe.say(wire.reply_line(99, "nobody asked"))
    pipe.say(wire.refusal_line(numbers[0], Refused("no", "because", "yes")))
    assert await second == "second"
    with pytest.raises(Refused, match="no"):
        await first
    await session.close()


async def test_noise_before_and_between_messages_is_passed_over() -> None:
    pipe = FakePipe(b"Welcome!\r\n", b"\xff\xfe\n", hello(), b"{broken\n")
    session = await Session.open(Pipes(pipe))
    asking = asyncio.create_task(session.attach(run="x"))
    number = (await pipe.heard.get())["id"]
    pipe.say(wire.reply_line(number, {"kind": "run", "at": 1.0, "id": "x"}))
    assert await asking == Run(1.0, id="x")
    await session.close()


async def test_an_agent_that_never_says_hello() -> None:
    with pytest.raises(Refused) as caught:
        await Session.open(Pipes(FakePipe(b"", ending="python3: not found")))
    assert caught.value.cause == "python3: not found"


async def test_another_protocol_is_refused() -> None:
    with pytest.raises(Refused, match="protocol 99"):
        await Session.open(Pipes(FakePipe(hello(99))))


async def test_a_read_only_session_never_asks_for_a_kill() -> None:
    pipe = FakePipe(hello())
    session = await Session.open(Pipes(pipe), read_only=True)
    with pytest.raises(Refused, match="read-only"):
        await session.kill()
    assert pipe.heard.empty()
    await session.close()


async def test_another_run_begins_a_model_of_its_own_before_its_events_are_folded() -> None:
    pipe = FakePipe(hello())
    session = await Session.open(Pipes(pipe))
    pipe.say(codec.encode(Run(1.0, id="one")))
    pipe.say(codec.encode(Gpus(2.0, gpus=(Gpu(0),))))
    relaunching = asyncio.create_task(session.relaunch(add=["--x"]))
    heard = await pipe.heard.get()
    assert (heard["do"], heard["add"]) == ("relaunch", ["--x"])
    first = session.model
    pipe.say(codec.encode(Run(3.0, id="two", attempt=2)))
    pipe.say(wire.reply_line(heard["id"], {"kind": "run", "at": 3.0, "id": "two", "attempt": 2}))
    assert (await relaunching).attempt == 2
    assert session.model is not first
    assert session.model.run is not None and session.model.run.id == "two" and session.model.gpus is None
    pipe.say(codec.encode(Run(4.0, id="two", attempt=2, tp=8)))  # more is known of the same run
    model = session.model
    woken = asyncio.Event()
    session.subscribe(woken.set)
    await woken.wait()
    assert session.model is model and session.model.run is not None and session.model.run.tp == 8
    await session.close()


async def test_a_read_only_view_relaunches_nothing() -> None:
    session = await Session.open(Pipes(FakePipe(hello())), read_only=True)
    with pytest.raises(Refused, match="read-only"):
        await session.relaunch(add=["--x"])
    await session.close()
