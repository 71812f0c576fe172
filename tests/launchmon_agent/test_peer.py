"""How a conversation with a client ends."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from launchmon_agent import wire
from launchmon_agent.errors import Refused
from launchmon_agent.peer import Peer, read_line
from launchmon_agent.wire import Request


class Client:
    def __init__(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.reader = reader
        self.writer = writer


@pytest.fixture
async def client() -> Client:
    ours, theirs = socket.socketpair()
    peer = Peer(*await asyncio.open_connection(sock=theirs))
    return Client(peer, *await asyncio.open_connection(sock=ours))


async def echo(request: Request) -> Any:
    if request.do == "refuse":
        raise Refused("no", "because", "else")
    return request.args


async def test_requests_are_answered_until_the_client_says_goodbye(client: Client) -> None:
    talk = asyncio.create_task(client.peer.converse(echo))
    client.writer.write(wire.request_line(Request(1, "echo", {"x": [1]})))
    assert json.loads(await client.reader.readline()) == {"re": 1, "value": {"x": [1]}}
    client.writer.write(b"noise\n" + wire.request_line(Request(2, "refuse")))
    assert json.loads(await client.reader.readline())["refused"]["what"] == "no"
    client.writer.write(wire.BYE)
    await asyncio.wait_for(talk, 60)
    assert await client.reader.read() == b""
    client.writer.close()


async def test_a_client_that_is_gone_ends_it(client: Client) -> None:
    talk = asyncio.create_task(client.peer.converse(echo))
    client.writer.close()
    await asyncio.wait_for(talk, 60)


async def test_a_client_that_says_nothing_any_more_ends_it(client: Client) -> None:
    await asyncio.wait_for(client.peer.converse(echo, silence_s=0.0), 60)
    client.writer.close()


async def test_a_client_may_be_silent_where_nothing_is_in_between(client: Client) -> None:
    talk = asyncio.create_task(client.peer.converse(echo))
    _, pending = await asyncio.wait([talk], timeout=0)
    assert pending
    client.writer.close()
    await talk


async def test_a_line_that_the_end_tears_is_none(client: Client) -> None:
    client.peer.send(b'{"kind":"notice"}\n{"kind":"gp')
    client.peer.close()
    assert await read_line(client.reader) == b'{"kind":"notice"}\n'
    assert await read_line(client.reader) == b""
