"""Generated lines on the pipe and in a recording: each is a message, or malformed, and never anything else."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from launchmon.replay.recorded import Recorded
from launchmon_agent import codec, wire
from launchmon_agent.codec import Malformed
from launchmon_agent.events import KINDS, Event, Mark, Notice, Other
from launchmon_agent.model import RunModel
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.recording import (
    Recording,
    happenings,
    last_verdict,
    read_events,
    samples_since,
    shareable_lines,
)
from launchmon_agent.wire import Hello, Reply, Request
from tests.support.hostile_text import BOUNDED, LINE, TEXT

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.just(10**400)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
NAMES = st.sampled_from(sorted({field.name for kind in KINDS.values() for field in dataclasses.fields(kind)}))
BODY = st.tuples(
    st.dictionaries(st.one_of(NAMES, TEXT), JSON, max_size=6),
    st.sampled_from([*sorted(KINDS), "new-kind", "", 7, None]),
    st.one_of(st.floats(), st.just(1764439200.0), JSON),
).map(lambda parts: {**parts[0], "kind": parts[1], "at": parts[2]})
MESSAGE = st.one_of(
    BODY,
    JSON,
    st.fixed_dictionaries({"hello": JSON}),
    st.fixed_dictionaries({"id": st.one_of(st.integers(), JSON), "do": st.one_of(TEXT, JSON), "at": JSON}),
    st.fixed_dictionaries({"re": st.one_of(st.integers(), JSON), "refused": JSON, "value": JSON}),
)
WIRE = st.one_of(
    MESSAGE.map(lambda body: json.dumps(body).encode()), LINE, st.binary(max_size=40), st.just(b"[" * 5000)
)
"""One line, well-formed or not."""


@given(WIRE)
@BOUNDED
def test_a_line_is_a_message_or_malformed(line: bytes) -> None:
    try:
        message = wire.parse(line)
    except Malformed as malformed:
        assert str(malformed)
        return
    assert isinstance(message, (Hello, Request, Reply, Event))
    if isinstance(message, Event):  # numbers are sent with three decimals, and so the same the second time
        sent = codec.encode(message)
        assert codec.encode(codec.decode(sent)) == sent
        assert sent.count(b"\n") == 1 and sent.isascii()


@given(TEXT, st.dictionaries(TEXT, JSON, max_size=4))
@BOUNDED
def test_what_is_sent_arrives_whatever_it_says(text: str, args: dict[str, Any]) -> None:
    request = Request(7, text, {name: value for name, value in args.items() if name not in ("id", "do", "hello")})
    assert repr(wire.parse(wire.request_line(request))) == repr(request)
    assert repr(wire.parse(wire.reply_line(7, args))) == repr(Reply(7, args))
    note = Notice(at=1.0, source=text, text=text)
    assert codec.decode(codec.encode(note)) == note


@given(st.lists(WIRE, max_size=12), st.binary(max_size=60))
@BOUNDED
def test_a_damaged_recording_gives_what_is_whole_in_it(tmp_path_factory: Any, lines: list[bytes], part: bytes) -> None:
    folder = tmp_path_factory.mktemp("run")
    directory = RunDirectory(str(folder))
    kept = Notice(at=1764439200.0, source="keeper", text="kept")
    damaged = b"\n".join([*lines, b"", codec.encode(kept).rstrip(b"\n"), b""])
    Path(directory.events).write_bytes(damaged + b'{"kind":"notice","at":1,"te')
    (folder / "events-0001.jsonl.gz").write_bytes(gzip.compress(damaged) + part)
    found = list(read_events(directory))
    assert kept in found
    model = RunModel()
    for event in found:
        if not isinstance(event, Other):
            model.fold(event)
    for _ in (happenings(directory), shareable_lines(directory)):
        list(_)
    last_verdict(directory)
    samples_since(directory, "gpus", 0.0, 5)
    recorded = Recorded(damaged.splitlines(keepends=True))
    recorded.model_at(len(recorded))
    writer = Recording(directory, lambda problem: None)
    writer.append(Mark(1764439201.0, "x", "begin"))
    writer.close()
    assert kept in list(read_events(directory))
