"""The agent between a client and a keeper's socket: events pass through line for line, requests are asked again.

When a keeper dies while its server lives, another one is started and the client sees a notice, not an end.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

from launchmon_agent import codec, keepers, wire
from launchmon_agent.codec import Malformed
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Notice
from launchmon_agent.peer import read_line
from launchmon_agent.runs.directory import RunDirectory, RunFile
from launchmon_agent.sensors import proc
from launchmon_agent.wire import MAX_LINE, Hello, Reply, Request

GREETING_S = 20.0
"""How long a keeper may take for its first word."""

TRIES = 5
AGAIN_S = 0.5
"""A keeper that was killed may for a moment seem to be alive; and one that starts needs one."""


class Relay:
    """``send`` takes lines for the client. ``lost`` is called when the server may go on and no keeper is to be had: the
    client had better begin anew than believe what stands still."""

    def __init__(self, directory: RunDirectory, send: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._directory = directory
        self._send = send
        self._lost = lost
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None

    async def open(self) -> Any:
        """Connect and follow; returns the run as the keeper tells it. Raises :class:`Refused`."""
        reader = await self._connect()
        self._pump = asyncio.create_task(self._pump_lines(reader))
        return await self.ask(Request(0, "watch"))

    async def ask(self, request: Request) -> Any:
        """Put a client's request to the keeper under a number of our own. Raises :class:`Refused`."""
        if self._writer is None:
            raise Refused(
                "the keeper of this run is gone", "it was killed, or the machine is out of memory", "try again"
            )
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._writer.write(wire.request_line(Request(number, request.do, request.args)))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
        self._give_up("this run is not followed any more")

    def _give_up(self, why: str) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Refused(why))

    async def _connect(self) -> asyncio.StreamReader:
        file = self._directory.read()
        if file is None or file.socket is None:
            raise Refused(f"run {self._directory.id} has no keeper")
        try:
            reader, writer = await asyncio.open_unix_connection(file.socket, limit=MAX_LINE)
        except OSError as error:
            raise Refused(f"the keeper of {self._directory.id} does not answer", str(error)) from None
        try:
            await self._greeted(reader)
        except Refused:
            writer.close()
            raise
        self._writer = writer
        return reader

    async def _greeted(self, reader: asyncio.StreamReader) -> None:
        """Its hello has come, and it speaks as we do. Raises :class:`Refused`."""
        try:
            greeting = wire.parse(await asyncio.wait_for(read_line(reader), GREETING_S))
        except asyncio.TimeoutError:
            raise Refused(
                f"the keeper of {self._directory.id} does not answer",
                f"it has said nothing for {GREETING_S:g} s: it is stopped, or the machine is overloaded",
                "end it, and launchmon attach again: the server goes on and a new keeper adopts it",
            ) from None
        except (OSError, Malformed) as error:
            raise Refused(f"the keeper of {self._directory.id} does not answer", str(error)) from None
        if not isinstance(greeting, Hello) or greeting.protocol != codec.PROTOCOL:
            raise Refused(
                f"the keeper of {self._directory.id} is of another version of launchmon",
                f"it was started by {greeting.version}" if isinstance(greeting, Hello) else "",
                "use that version, or end the keeper: the server goes on and a new keeper adopts it",
            )

    async def _pump_lines(self, reader: asyncio.StreamReader) -> None:
        known = self._directory.read()
        while True:
            while line := await read_line(reader):
                self._pass_on(line)
            self._writer = None
            self._give_up("the keeper of this run ended before it answered")
            fresh = await self._another(known)
            if fresh is None:
                return
            reader = fresh
            assert self._writer is not None
            self._writer.write(wire.request_line(Request(next(self._numbers), "watch")))
            self._tell("the keeper was gone; another one has adopted the run")

    async def _another(self, known: RunFile | None) -> asyncio.StreamReader | None:
        """The conversation with another keeper; None, and the reason told, when there is none to be had."""
        why = ""
        for _ in range(TRIES):
            try:
                if await asyncio.to_thread(keepers.ensure, self._directory):
                    return await self._connect()
                if known is None or known.server is None or not proc.alive(known.server.pid, known.server.start_time):
                    self._tell("the keeper has ended, and so has the server")
                    return None
                why = f"{self._directory.path} was removed; the server goes on"
                break
            except Refused as refused:
                why = f"{refused.what}: {refused.cause}" if refused.cause else refused.what
            await asyncio.sleep(AGAIN_S)
        self._tell(f"the keeper has ended, and there is no other: {why}")
        self._lost()
        return None

    def _pass_on(self, line: bytes) -> None:
        if not line.startswith(b'{"re":'):
            self._send(line)
            return
        try:
            message: wire.Message | Event = wire.parse(line)
        except Malformed:
            return  # a keeper of another version may say more than we know
        if isinstance(message, Reply):
            future = self._waiting.get(message.to)
            if future is not None and not future.done():
                if message.refused is not None:
                    future.set_exception(message.refused)
                else:
                    future.set_result(message.value)

    def _tell(self, text: str) -> None:
        self._send(codec.encode(Notice(time.time(), source="keeper", text=text)))
