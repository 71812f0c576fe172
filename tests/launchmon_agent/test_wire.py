"""Requests, replies and the hello as lines."""

from __future__ import annotations

import pytest

from launchmon_agent import codec, wire
from launchmon_agent.codec import Malformed
from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpus
from launchmon_agent.wire import Hello, Reply, Request

HELLO = Hello(1, "0.1.0", 7, "gpu7", "root", "3.11.2", "/usr/bin/python3", missing=("pynvml",))


def test_each_message_survives_a_round_trip() -> None:
    assert wire.parse(wire.hello_line(HELLO)) == HELLO
    request = Request(3, "window", {"at": "end", "before": 20, "rank": None})
    assert wire.parse(wire.request_line(request)) == request
    assert wire.parse(wire.reply_line(3, {"lines": []})) == Reply(3, {"lines": []})
    assert wire.parse(codec.encode(Gpus(1.0))) == Gpus(1.0)


def test_a_refusal_keeps_its_three_parts() -> None:
    message = wire.parse(wire.refusal_line(3, Refused("port 30000 is in use", "pid 7 listens", "--port 30001")))
    assert isinstance(message, Reply) and message.refused is not None
    assert message.refused.as_json() == {
        "what": "port 30000 is in use",
        "cause": "pid 7 listens",
        "try": "--port 30001",
    }


def test_arguments_cannot_take_the_place_of_id_and_verb() -> None:
    assert wire.parse(wire.request_line(Request(3, "kill", {"id": 9, "do": "launch"}))) == Request(3, "kill", {})


@pytest.mark.parametrize("line", [b"Welcome to gpu7\n", b"[1]\n", b'{"hello":7}\n', b'{"id":"x","do":"kill"}\n', b""])
def test_what_is_no_message_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        wire.parse(line)
