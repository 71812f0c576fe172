"""An agent started over a channel: waits for the stub, sends the code, and then carries lines both ways.

Everything that comes from the target is hostile: lines are bounded, and what is inflated is too.
"""

from __future__ import annotations

import asyncio
import zlib

from launchmon.connect import Channel, Ending
from launchmon.connect.bundle import agent_zip
from launchmon_agent.boot import READY, load
from launchmon_agent.errors import Refused
from launchmon_agent.wire import DEFLATE, MAX_LINE

READY_S = 30.0
"""How long the target's Python may take to start: an image on a network disk, a shell with slow startup files."""

NOISE = 16 * 1024
"""Bytes kept of what comes before the ready line, for the message when it never comes."""


class NotStarted(Exception):
    """No agent came up. ``noise``: what the target printed instead."""

    def __init__(self, ending: Ending | None, noise: str) -> None:
        super().__init__(noise)
        self.ending = ending
        self.noise = noise


class AgentPipe:
    """See :class:`launchmon.connect.Pipe`. Make one with :meth:`open`."""

    def __init__(self, channel: Channel, target: str, received: bytes, *, packed: bool) -> None:
        self.target = target
        self._channel = channel
        self._buffer = bytearray(received)
        self._packed = packed
        self._inflate: zlib._Decompress | None = None
        self._broken = ""

    @classmethod
    async def open(cls, channel: Channel, target: str, *, packed: bool) -> AgentPipe:
        """Start the agent. ``packed``: what it sends is compressed. Raises :class:`NotStarted`."""
        try:
            received = await asyncio.wait_for(_ready(channel), READY_S)
        except asyncio.TimeoutError:
            await channel.close()
            raise NotStarted(None, "") from None
        except EOFError as error:
            raise NotStarted(await channel.close(), str(error)) from None
        channel.write(load(agent_zip(), [DEFLATE] if packed else []))
        await channel.drain()
        return cls(channel, target, received, packed=packed)

    async def read_line(self) -> bytes:
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[: end + 1])
                del self._buffer[: end + 1]
                if self._packed and self._inflate is None and line.startswith(b'{"hello":'):
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
            self._take(received)

    def write_line(self, line: bytes) -> None:
        self._channel.write(line)

    async def end(self) -> str:
        ending = await self._channel.close()
        if self._broken:
            return self._broken
        if ending.status == 0:
            return ""
        said = ending.complaints.splitlines()
        return said[-1] if said else f"the agent ended with status {ending.status}"

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


async def _ready(channel: Channel) -> bytes:
    """What follows the ready line. Raises :class:`EOFError` with what was printed when the command ends first."""
    seen = bytearray()
    while True:
        received = await channel.read()
        if not received:
            raise EOFError(seen[-NOISE:].decode("utf-8", "replace"))
        seen += received
        for line_end in (b"\n", b"\r\n"):  # the second where a terminal that is no longer raw is in between
            at = seen.find(b"\n" + READY + line_end)
            if at >= 0:
                return bytes(seen[at + 1 + len(READY) + len(line_end) :])
        del seen[: -2 * NOISE]


def refusal(target: str, failure: NotStarted) -> Refused:
    """Why no agent came up, for people."""
    said = failure.ending.complaints if failure.ending is not None else ""
    said = said or failure.noise
    last = said.strip().splitlines()[-1:] or [""]
    if failure.ending is None:
        return Refused(f"no agent came up on {target} within {READY_S:.0f} s", last[0])
    return Refused(f"the agent could not be started on {target}", last[0] or f"status {failure.ending.status}")
