"""Pipes whose other end is in the hands of a test, and an opener that gives one after the other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from launchmon.connect import Pipe
from launchmon_agent import codec, wire
from launchmon_agent.errors import Refused
from launchmon_agent.wire import Hello


class FakePipe:
    """What the agent says goes into :meth:`say`, what it heard is in :attr:`heard`; a ``deaf`` one answers no ping."""

    target = "root@gpu7"

    def __init__(self, *lines: bytes, ending: str = "", deaf: bool = False) -> None:
        self.received = 0
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.closed = False
        self.pings = 0
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._ending = ending
        self._deaf = deaf
        for line in lines:
            self.say(line)

    def say(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    def drop(self) -> None:
        """The pipe ends."""
        self.say(b"")

    async def next(self, do: str) -> dict[str, Any]:
        """The next request, which has to be this one."""
        request = await asyncio.wait_for(self.heard.get(), 5)
        assert request["do"] == do, request
        return request

    async def answer(self, do: str, value: Any) -> dict[str, Any]:
        """Wait for that request and answer it."""
        request = await self.next(do)
        self.say(wire.reply_line(request["id"], value))
        return request

    async def refuse(self, do: str, what: str) -> None:
        self.say(wire.refusal_line((await self.next(do))["id"], Refused(what)))

    async def read_line(self) -> bytes:
        line = await self._lines.get()
        self.received += len(line)
        return line

    def write_line(self, line: bytes) -> None:
        request = json.loads(line)
        if request["do"] == "tools":  # asked in the background, in every session
            self.say(wire.reply_line(request["id"], {"machine": "x86_64", "pyspy": "/usr/bin/py-spy", "refused": None}))
        elif request["do"] != "ping":
            self.heard.put_nowait(request)
        else:
            self.pings += 1
            if not self._deaf:
                self.say(wire.reply_line(request["id"], None))

    async def end(self) -> str:
        self.closed = True
        return self._ending


def hello(protocol: int = codec.PROTOCOL, boot_id: str | None = "boot-1") -> bytes:
    return wire.hello_line(Hello(protocol, "0.1.0", 7, "gpu7", "root", "3.11.2", "/usr/bin/python3", boot_id=boot_id))


class Pipes:
    """Opens what was prepared, one after the other, and waits when none is left; a :class:`Refused` is raised."""

    def __init__(self, *prepared: FakePipe | Refused) -> None:
        self.opened = 0
        self._prepared: asyncio.Queue[FakePipe | Refused] = asyncio.Queue()
        for one in prepared:
            self.prepare(one)

    def prepare(self, one: FakePipe | Refused) -> None:
        self._prepared.put_nowait(one)

    async def __call__(self) -> Pipe:
        self.opened += 1
        one = await self._prepared.get()
        if isinstance(one, Refused):
            raise one
        return one
