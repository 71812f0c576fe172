"""What speaks on a target need not be our agent. Whatever it says, the client goes on or ends the link and says why."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import sys
import types
import typing
import unicodedata
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launchmon import answers
from launchmon.cli.harmless import HarmlessText
from launchmon.connect import Asker, Ending
from launchmon.connect.pipe import AgentPipe
from launchmon.connect.refusal import NotStarted
from launchmon.diagnosis import diagnosis
from launchmon.session import MOST_LASTING, Session
from launchmon.text import diagnosis_text
from launchmon.tui.app import LaunchmonApp
from launchmon_agent import wire
from launchmon_agent.boot import READY
from launchmon_agent.codec import Malformed, encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import KINDS, Action, Event, Notice, Process, Processes, Run, Verdict
from launchmon_agent.wire import MAX_LINE
from tests.support.fake_pipe import FakePipe, Pipes, hello
from tests.support.hostile_text import BOUNDED, EXPLORED
from tests.support.tui_rig import Rig

FUZZ = settings(BOUNDED, max_examples=EXPLORED or 60)

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n\u202e\u2066\x00[bold]x[/]"
TEXTS = st.sampled_from(["", "TP0", "TP99999999999", EVIL, "A" * 5000, "é😀" * 40, "ready", "scheduler", "launcher"])
NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 8, 10**6, 2**31, 2**63, 2**64, -(2**64), 253402300799]), st.integers(-10, 10**10)
)
REALS = st.one_of(NUMBERS, st.floats(allow_nan=False, allow_infinity=False, width=32), st.sampled_from([1e-300, 1e18]))
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


def of(hint: Any) -> st.SearchStrategy[Any]:
    """JSON values of the annotated type, at its limits and beyond all sense."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(st.none() if part is type(None) else of(part) for part in typing.get_args(hint)))
    if origin is tuple:
        return st.lists(of(typing.get_args(hint)[0]), max_size=4)
    if origin is dict:
        return st.dictionaries(TEXTS, of(typing.get_args(hint)[1]), max_size=3)
    if dataclasses.is_dataclass(hint):
        return bodies(hint)
    return {int: NUMBERS, float: REALS, str: TEXTS, bool: st.booleans()}.get(hint, JUNK)


def bodies(cls: Any) -> st.SearchStrategy[dict[str, Any]]:
    hints = typing.get_type_hints(cls)
    return st.fixed_dictionaries({spec.name: of(hints[spec.name]) for spec in dataclasses.fields(cls)})


@st.composite
def events_(draw: st.DrawFn) -> bytes:
    """A line that is an event of some kind in all its fields, or nearly one."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    body = draw(bodies(KINDS[kind]))
    for name in draw(st.lists(st.sampled_from(sorted(body)), max_size=1)):
        body[name] = draw(JUNK)
    return json.dumps({**body, "kind": kind}).encode() + b"\n"


LINES = st.one_of(
    events_(),
    JUNK.map(lambda junk: json.dumps(junk).encode() + b"\n"),
    st.dictionaries(st.sampled_from(["re", "hello", "do", "id", "kind", "at", "value", "refused"]), JUNK).map(
        lambda body: json.dumps(body).encode() + b"\n"
    ),
    st.binary(max_size=200).map(lambda data: data.replace(b"\n", b"") + b"\n"),
    st.sampled_from(
        [b"[" * 100_000 + b"\n", b'{"kind":"host","at":1' + b"0" * 5000 + b"}\n", b'{"at":NaN,"kind":"log"}\n']
    ),
)


# ------------------------------------------------------------------------------------------------------------ the pipe


class FromBytes:
    """A channel on which prepared parts come, and then the end."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self.taken = 0

    async def read(self) -> bytes:
        part = next(self._parts, b"")
        self.taken += len(part)
        return part

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass

    async def close(self) -> Ending:
        return Ending(0)


async def opened(parts: list[bytes] | Iterator[bytes], *, packed: bool) -> tuple[AgentPipe, FromBytes]:
    def all_parts() -> Iterator[bytes]:
        yield b"\n%s 0\n" % READY
        yield from parts

    channel = FromBytes(all_parts())
    return await AgentPipe.open(channel, "gpu7", packed=packed), channel


@FUZZ
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.booleans(), st.booleans())
async def test_any_bytes_come_to_an_end(parts: list[bytes], packed: bool, greets: bool) -> None:
    try:
        pipe, _ = await opened([hello(), *parts] if greets else parts, packed=packed)
    except NotStarted:
        return
    received = 0
    while line := await pipe.read_line():
        assert line.endswith(b"\n")
        received += 1
    assert received <= 1 + sum(len(part) for part in parts) * 1100  # what zlib makes of a byte at most
    assert isinstance(await pipe.end(), str)


@pytest.mark.parametrize("packed", [False, True])
async def test_a_line_without_an_end_is_given_up(packed: bool) -> None:
    pack = zlib.compressobj()

    def endless() -> Iterator[bytes]:
        yield hello()
        while True:
            part = b"x" * 65536
            yield pack.compress(part) + pack.flush(zlib.Z_SYNC_FLUSH) if packed else part

    pipe, channel = await opened(endless(), packed=packed)
    assert await pipe.read_line() == hello()
    assert await pipe.read_line() == b""
    assert channel.taken < 2 * MAX_LINE
    assert "16 MiB" in await pipe.end()


async def test_a_bomb_is_not_inflated() -> None:
    bomb = zlib.compress(b"\0" * (256 << 20), 9)
    pipe, _ = await opened([hello(), bomb], packed=True)
    assert await pipe.read_line() == hello()
    assert await pipe.read_line() == b""
    assert len(pipe._buffer) <= 2 * MAX_LINE
    assert await pipe.end() != ""


# --------------------------------------------------------------------------------------------------------- the session


@FUZZ
@given(st.lists(LINES, max_size=12))
async def test_a_session_survives_whatever_is_said(lines: list[bytes]) -> None:
    pipe = FakePipe(hello(), *lines)
    session = await Session.open(Pipes(pipe), attended=False)
    try:
        pipe.drop()
        while session.link.state == "live":
            await asyncio.sleep(0)
        assert session.link.state in ("lost", "ended")
        assert session.link.message
        diagnosis_text(json.loads(json.dumps(diagnosis(session.model, session.hello, session.target))))
    finally:
        await session.close()


@FUZZ
@given(events_())
def test_what_is_understood_can_be_said_again(line: bytes) -> None:
    try:
        event = wire.parse(line)
    except Malformed:
        return
    if isinstance(event, Event):
        assert isinstance(json.loads(json.dumps(dataclasses.asdict(event), allow_nan=False)), dict)


async def test_happenings_without_end_do_not_fill_the_memory() -> None:
    pipe = FakePipe(hello())
    session = await Session.open(Pipes(pipe), attended=False)
    try:
        text = "x" * (1 << 20)
        number = MOST_LASTING // len(text) + 20
        for place in range(number):
            pipe.say(encode(Action(1.0, id=str(place), action="kill", step="wait", state="running", text=text)))
        pipe.drop()
        while session.link.state == "live":
            await asyncio.sleep(0)
        assert len(session.model.actions) < number
        assert any("left out" in notice.text for notice in session.model.notices)
    finally:
        await session.close()


# --------------------------------------------------------------------------------------------------------- the answers


@FUZZ
@given(JUNK)
def test_an_answer_has_the_shape_that_was_asked_for_or_is_refused(value: Any) -> None:
    for check in (
        lambda: answers.shaped(Run, "x", value),
        lambda: answers.a_run("x", value),
        lambda: answers.an_object("x", value, "key"),
        lambda: answers.objects("x", value, "key"),
        lambda: answers.a_number("x", value),
        lambda: answers.unpacked("x", value),
    ):
        try:
            check()
        except Refused as refused:
            assert "makes no sense" in refused.what


# ---------------------------------------------------------------------------------------------------------- the screen


def obeyed(text: str) -> set[str]:
    """What a terminal would take for more than text to show."""
    return {character for character in text if character != "\n" and unicodedata.category(character) in ("Cc", "Cf")}


async def test_nothing_that_is_said_reaches_the_terminal_as_an_order() -> None:
    run = Run(1.0, id=EVIL, argv=(EVIL,), name=EVIL, model=EVIL, pid=1, start_time=1.0, tp=2, log=EVIL)
    process = Process(pid=1, start_time=1.0, role="scheduler", rank="TP0", title=EVIL, blocked_in=EVIL)
    said = (
        run,
        Processes(2.0, processes=(process,)),
        Verdict(2.0, verdict="unknown", confidence=EVIL, summary=EVIL * 3),
        Notice(2.0, source=EVIL, text=EVIL),
    )
    pipe = FakePipe(hello(), *map(encode, said))

    async def open_session(_: Asker) -> Session:
        return await Session.open(Pipes(pipe), attended=False)

    app = LaunchmonApp(open_session)
    async with app.run_test(size=(100, 30)) as pilot:
        while not isinstance(app.session, Session) or app.session.model.verdict is None:
            await pilot.pause()
        rig = Rig(app, pilot, app.session)  # type: ignore[arg-type]
        await pilot._wait_for_screen()  # no request is ever answered, so that nothing settles
        rig.run.look()
        await pilot._wait_for_screen()
        app.screen._on_timer_update()
        text = rig.screen_text()
        assert "owned" in text
        assert obeyed(text) == set()


def test_verbs_print_nothing_that_a_terminal_obeys(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    stream = HarmlessText(out, "utf-8", "backslashreplace", line_buffering=True)
    monkeypatch.setattr(sys, "stdout", stream)
    print(f"title\t{EVIL}\udcff\nnext")
    stream.flush()
    printed = out.getvalue().decode()
    assert obeyed(printed) == {"\t"}
    assert printed.startswith("title\t␛]0;owned␇␛[2J⟨U+009B⟩31m␍\n")
    assert printed.endswith("\nnext\n")
