"""Versions meet: what an old one recorded is read; what another one says is understood or refused, never garbled."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launchmon.connect import Barred
from launchmon.replay.files import read_lines
from launchmon.session import Session
from launchmon_agent import __version__, codec
from launchmon_agent.codec import decode, encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Other
from launchmon_agent.model import RunModel
from launchmon_agent.runs.directory import ProcessId, RunDirectory, RunFile, create
from launchmon_agent.runs.recording import read_events
from launchmon_agent.sensors import proc
from tests.support.fake_pipe import FakePipe, Pipes, hello
from tests.support.fault_rig import FaultRig, fault_rig
from tests.support.golden import VERSIONS

GOLDEN = sorted(path for path in VERSIONS.glob("*/*") if path.is_dir())


@pytest.fixture
def rig() -> Iterator[FaultRig]:
    with fault_rig() as one:
        yield one


def copied(rig: FaultRig, golden: Path) -> RunDirectory:
    """As if it had run on this machine: its name and its start are what the golden files have in place of ours."""
    os.makedirs(rig.root, mode=0o700, exist_ok=True)
    place = RunDirectory(shutil.copytree(golden, os.path.join(rig.root, golden.name)))
    path = Path(place.path, "run.json")
    path.write_text(path.read_text().replace('"gpu7"', json.dumps(socket.gethostname())))
    return place


# ------------------------------------------------------------------------------------------- what older ones have left


def test_this_version_has_left_one_too() -> None:
    assert __version__ in {path.parent.name for path in GOLDEN}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.parent.name)
def test_every_line_of_an_old_recording_is_understood(golden: Path) -> None:
    lines = read_lines(str(golden))
    found = [decode(line) for line in lines]
    assert not [event.kind for event in found if isinstance(event, Other)]
    assert [decode(encode(event)) for event in found] == found
    assert list(read_events(RunDirectory(str(golden)))) == found, "agent and client read the same"
    model = RunModel()
    for event in found:
        model.fold(event)
    assert model.verdict is not None and model.run is not None and model.run.name == "golden"
    assert model.marks("ready") and model.stacks and model.exits and model.actions
    assert {span.phase for span in model.phases.spans()} >= {"spawn", "weights", "graphs", "ready"}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.parent.name)
def test_an_old_run_directory_is_listed_looked_at_and_relaunched_from(rig: FaultRig, golden: Path) -> None:
    place = copied(rig, golden)
    known = {field.name for field in dataclasses.fields(RunFile)}
    assert json.loads(Path(place.path, "run.json").read_text()).keys() <= known
    with rig.agent() as agent:
        (row,) = [row for row in agent.ask("runs") if row["id"] == place.id]
        assert (row["state"], row["name"], row["tp"]) == ("ended", "golden", 2)
        run = agent.ask("attach", run="golden")
        assert (run["id"], run["launched"], run["name"]) == (place.id, True, "golden")
        verdict = agent.wait_for(lambda one: one.get("kind") == "verdict")
        assert verdict.get("verdict") in ("stopped", "crashed")
        shown = agent.ask("window", at=0, before=0, after=500)
        log = Path(place.log).read_text()
        assert shown["lines"] and shown["size"] == len(log.encode())
        (attempt,) = agent.ask("ledger")["attempts"]
        assert (attempt["phase"], attempt["ended_by"]) == ("ready", "launchmon")
        options = agent.ask("relaunch-options")
        assert "--speed" in options["argv"]
        assert agent.ask("recording", start=0)["data"]
    assert gzip.decompress(Path(place.path, "events-0001.jsonl.gz").read_bytes()), "nothing was changed"


def test_what_a_newer_one_has_added_is_passed_over_and_passed_on(rig: FaultRig) -> None:
    place = copied(rig, GOLDEN[-1])
    path = Path(place.path, "run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "warp": {"factor": 9}, "attempt": 1}))
    with open(place.events, "ab") as file:
        file.write(b'{"kind":"weather","at":1,"rain":[1]}\n{"kind":"notice","at":2,"text":"new","colour":"red"}\n')
    with rig.agent() as agent:
        agent.ask("attach", run=place.id)
        assert agent.ask("ledger")["attempts"]
        heard = [one for one in agent.heard if one.get("kind") == "notice" and one["text"] == "new"]
        assert all("colour" not in one for one in heard)
    assert b"weather" in b"".join(read_lines(place.path))


# ---------------------------------------------------------------------------------------------------- keepers of others


class OtherKeeper:
    """Answers at a socket with what ``talk`` makes of each request; ``greeting`` comes first."""

    def __init__(self, path: Path, greeting: bytes, talk: Callable[[dict[str, Any]], bytes]) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._greeting, self._talk = greeting, talk
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
                connection.sendall(self._greeting)
                for line in lines:
                    connection.sendall(self._talk(json.loads(line)))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def followed(
    rig: FaultRig, greeting: bytes, talk: Callable[[dict[str, Any]], bytes]
) -> tuple[RunDirectory, OtherKeeper]:
    """A run whose server and keeper is this very process."""
    ours = ProcessId(os.getpid(), proc.start_time(os.getpid()) or 0.0)
    path = rig.home / "other.sock"
    place = create(("true",), root=rig.root, server=ours, keeper=ours, socket=str(path))
    return place, OtherKeeper(path, greeting, talk)


def replies(value: Callable[[dict[str, Any]], Any], *besides: dict[str, Any]) -> Callable[[dict[str, Any]], bytes]:
    def talk(request: dict[str, Any]) -> bytes:
        told = [*besides, {"re": request["id"], "value": value(request)}]
        return b"".join(json.dumps(one).encode() + b"\n" for one in told)

    return talk


RUN = {"id": "r", "kind": "run", "at": 1.0}


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        (hello(protocol=codec.PROTOCOL + 1), "is of another version of launchmon"),
        (hello(protocol=0), "is of another version of launchmon"),
        (b'{"kind":"notice","at":1}\n', "is of another version of launchmon"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not answer"),
        (b"\x00\xff" * 100 + b"\n", "does not answer"),
        (b'{"hello":{"protocol":"one"}}\n', "does not answer"),
    ],
    ids=["newer", "older", "no hello", "no JSON", "bytes", "malformed"],
)
def test_a_keeper_that_speaks_otherwise_is_refused_and_left_alone(rig: FaultRig, greeting: bytes, words: str) -> None:
    place, keeper = followed(rig, greeting, replies(lambda _: pytest.fail("it was asked")))
    with rig.agent() as agent, pytest.raises(Refused) as refused:
        agent.ask("attach", run=place.id)
    assert words in refused.value.what
    assert rig.keepers() == [], "and no second keeper is started for it"
    keeper.close()


def test_a_newer_keeper_of_the_same_protocol_is_understood_as_far_as_it_is_known(rig: FaultRig) -> None:
    body = json.loads(hello())
    body["hello"] |= {"version": "9.9", "mood": "fine"}
    weather = {"kind": "weather", "at": 2.0, "rain": [1]}
    talk = replies(
        lambda _: {**RUN, "warp": 9}, weather, {"kind": "notice", "at": 3.0, "text": "x", "colour": 1}, {"bye": 1}
    )
    place, keeper = followed(rig, json.dumps(body).encode() + b"\n", talk)
    with rig.agent() as agent:
        assert agent.ask("attach", run=place.id)["id"] == "r"
        assert weather in agent.heard, "it is the client's to know or not"
        assert agent.ask("kill-plan") is not None, "what is no message at all has not ended the conversation"
    keeper.close()


def test_an_older_keeper_says_what_it_cannot_do(rig: FaultRig) -> None:
    def talk(request: dict[str, Any]) -> bytes:
        if request["do"] == "watch":
            return replies(lambda _: RUN)(request)
        refusal = {"what": f"{request['do']!r} is not something this agent can do", "cause": "versions", "try": ""}
        return b'{"re": 1}garbage\n' + json.dumps({"re": request["id"], "refused": refusal}).encode() + b"\n"

    place, keeper = followed(rig, hello(), talk)
    with rig.agent() as agent:
        agent.ask("attach", run=place.id)
        for question in ("count", "window"):
            with pytest.raises(Refused, match="not something this agent can do"):
                agent.ask(question)
    keeper.close()


# -------------------------------------------------------------------------------------------- clients of other versions


def test_what_a_newer_client_asks_is_refused_by_name_and_the_rest_is_answered(rig: FaultRig) -> None:
    with rig.agent() as agent:
        rig.launch(agent)
        for question, args in (("teleport", {}), ("window", {"at": 0, "before": 0, "after": 1, "colour": "red"})):
            with pytest.raises(Refused) as refused:
                agent.ask(question, **args)
            assert refused.value.what and "Traceback" not in str(refused.value)
        assert agent.process.stdin is not None
        agent.process.stdin.write(b'{"whatever": 1}\n[]\n\xff\xfe\n{"id": "x", "do": 7}\n')
        assert agent.ask("ping") is None
        assert agent.ask("window", at=0, before=0, after=1)["lines"][0]["text"] == "line 0"


@pytest.mark.parametrize("protocol", [codec.PROTOCOL + 1, 0])
async def test_a_client_refuses_an_agent_of_another_protocol_and_names_both(protocol: int) -> None:
    pipe = FakePipe(hello(protocol=protocol))
    with pytest.raises(Barred) as refused:
        await Session.open(Pipes(pipe))
    assert f"protocol {protocol}" in refused.value.what and f"speaks {codec.PROTOCOL}" in refused.value.what
    assert "different versions" in refused.value.cause and pipe.closed
