"""An agent started over a channel: waits for the stub, sends the code, and then carries lines both ways.

Everything that comes from the target is hostile: lines are bounded, and what is inflated is too.
"""

from __future__ import annotations

import asyncio
import re
import zlib

from launchmon.connect import Channel
from launchmon.connect.bundle import BYTECODE, agent_zip
from launchmon.connect.refusal import NotStarted
from launchmon_agent.boot import READY, TERMINAL, load
from launchmon_agent.wire import BYE, DEFLATE, MAX_LINE

READY_S = 30.0
"""How long the target's Python may take to start: an image on a network disk, a shell with slow startup files."""

_READY_LINE = re.compile(rb"\n(%s|%s) (\d+)\r?\n" % (READY, TERMINAL))
"""Its end has a carriage return where another terminal, which is not raw, is in between."""

NOISE = 16 * 1024
"""Bytes kept of what comes before the ready line, for the message when it never comes."""


class AgentPipe:
    """See :class:`launchmon.connect.Pipe`. Make one with :meth:`open`."""

    def __init__(self, channel: Channel, target: str, received: bytes, *, packed: bool) -> None:
        self.target = target
        self.received = len(received)
        self._channel = channel
        self._buffer = bytearray(received)
        self._packed = packed
        self._inflate: zlib._Decompress | None = None
        self._greeted = False
        self._broken = ""

    @classmethod
    async def open(cls, channel: Channel, target: str, *, packed: bool, script: bytes = b"") -> AgentPipe:
        """Start the agent. ``packed``: what it sends is compressed. ``script``: what leads to the stub; without it,
        the channel does already. Raises :class:`NotStarted`."""
        seen = bytearray()
        if script:
            channel.write(script)
        try:
            said, bytecode, received = await asyncio.wait_for(_ready(channel, seen), READY_S)
            code = agent_zip(compiled=bytecode == BYTECODE, deflated=packed)
            channel.write(load(code, [DEFLATE] if packed else [], printable=said == TERMINAL))
            await asyncio.wait_for(channel.drain(), READY_S)
        except asyncio.CancelledError:
            await channel.close()
            raise
        except (EOFError, asyncio.TimeoutError) as error:
            ending = await channel.close()
            printed = f"{seen[-NOISE:].decode('utf-8', 'replace')}\n{ending.complaints}"
            raise NotStarted(None if isinstance(error, asyncio.TimeoutError) else ending, printed, READY_S) from None
        return cls(channel, target, received, packed=packed)

    async def read_line(self) -> bytes:
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[: end + 1])
                del self._buffer[: end + 1]
                if not self._greeted and line.startswith(b'{"hello":'):
                    self._greeted = True
                    if self._packed:
                        self._inflate = zlib.decompressobj()
                        rest, self._buffer = bytes(self._buffer), bytearray()
                        self._take(rest)
                return line
            if len(self._buffer) > MAX_LINE:
                self._broken = "a line of more than 16 MiB came"
            if self._broken:
                return b""
            received = await self._channel.read()
            if not received:
                return b""
            self.received += len(received)
            self._take(received)

    def write_line(self, line: bytes) -> None:
        self._channel.write(line)

    async def end(self) -> str:
        self._channel.write(BYE)  # not everything that passes bytes on passes their end on
        ending = await self._channel.close()
        if self._broken:
            return self._broken
        if ending.status == 0:
            return ""
        said = ending.complaints.splitlines()
        status = "ended" if ending.status is None else f"ended with status {ending.status}"
        how = said[-1] if said else f"the agent {status}"
        return how if self._greeted else f"its Python began to run the agent and failed: {how}"

    def _take(self, received: bytes) -> None:
        if self._inflate is None:
            self._buffer += received
            return
        try:
            self._buffer += self._inflate.decompress(received, 2 * MAX_LINE)
        except zlib.error as error:
            self._broken = f"what came is damaged ({error})"
        if self._inflate.unconsumed_tail:
            self._broken = "more came at once than an agent sends"


async def _ready(channel: Channel, seen: bytearray) -> tuple[bytes, int, bytes]:
    """What the stub says, the number of its bytecode, and what follows; ``seen`` collects what precedes it.

    Raises :class:`EOFError` when none comes.
    """
    while True:
        received = await channel.read()
        if not received:
            raise EOFError
        seen += received
        found = _READY_LINE.search(seen)
        if found is not None:
            return found[1], int(found[2]), bytes(seen[found.end() :])
        del seen[: -2 * NOISE]
