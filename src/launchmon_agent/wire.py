"""What crosses the pipe besides events: the hello, requests and their replies. One JSON object a line, both ways.

    agent → client   {"hello": {…}}                       once, first
    client → agent   {"id": 7, "do": "window", …}         a request
    agent → client   {"re": 7, "value": …}                its reply
                     {"re": 7, "refused": {what, cause, try}}
    agent → client   {"kind": "gpus", "at": …, …}         an event, any time after "watch"

Pure: it builds and parses lines and does no I/O.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from launchmon_agent import codec
from launchmon_agent.codec import Malformed
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event

MAX_LINE = 16 * 1024 * 1024
"""Bytes. A longer line is not ours: the reader gives up rather than fill the memory."""

DEFLATE = "deflate"
"""The option of an agent that sends all that follows its hello as one zlib stream, flushed after each line."""

BYE = b'{"bye":true}\n'
"""The last line of a client that leaves: a terminal, or a program in between, may not pass the end of its input on."""


@dataclass(frozen=True)
class Hello:
    """Who answers: sent first by every agent and keeper. ``found``: how the bootstrap came by the interpreter."""

    protocol: int
    version: str
    pid: int
    hostname: str
    user: str
    python: str
    interpreter: str
    keeper: bool = False
    missing: tuple[str, ...] = ()  # packages that could not be imported
    found: str = ""  # path | place (where Pythons are usually kept) | server PID (it is that server's own)
    boot_id: str | None = None  # of the target: another one after it was restarted


@dataclass(frozen=True)
class Request:
    id: int
    do: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    to: int
    value: Any = None
    refused: Refused | None = None


Message = Hello | Request | Reply | Event


def hello_line(hello: Hello) -> bytes:
    return _line({"hello": dataclasses.asdict(hello)})


def request_line(request: Request) -> bytes:
    return _line({**request.args, "id": request.id, "do": request.do})


def reply_line(to: int, value: Any) -> bytes:
    return _line({"re": to, "value": value})


def refusal_line(to: int, refused: Refused) -> bytes:
    return _line({"re": to, "refused": refused.as_json()})


def parse(line: bytes) -> Message:
    """Raises :class:`~launchmon_agent.codec.Malformed`."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise Malformed("a message is a JSON object")
    if "hello" in body:
        hello: Hello = codec.from_json(Hello, body["hello"])
        return hello
    if isinstance(body.get("do"), str) and isinstance(body.get("id"), int):
        args = {key: value for key, value in body.items() if key not in ("id", "do")}
        return Request(body["id"], body["do"], args)
    if isinstance(body.get("re"), int):
        refused = Refused.from_json(body["refused"]) if "refused" in body else None
        return Reply(body["re"], body.get("value"), refused)
    return codec.from_body(body)


def _line(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
