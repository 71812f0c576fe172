"""One client on one pipe: reads its requests, sends replies and events, and keeps a slow reader from filling memory."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from launchmon_agent import codec, wire
from launchmon_agent.codec import Malformed
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event
from launchmon_agent.redaction import redacted_refusal
from launchmon_agent.watch import REPLACEABLE
from launchmon_agent.wire import Request

BACKLOG = 1024 * 1024
"""Bytes waiting for a client beyond which samples are left out for it. Marks, errors, exits and replies never are."""

Handler = Callable[[Request], Awaitable[Any]]


class Peer:
    """A conversation with one client. ``handle`` answers a request with a JSON value or raises :class:`Refused`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._packer: zlib._Compress | None = None

    def pack(self) -> None:
        """Compress all that is sent from now on (``wire.DEFLATE``)."""
        self._packer = zlib.compressobj(6)

    async def converse(self, handle: Handler, silence_s: float | None = None) -> None:
        """Serve until the client closes its end, or says nothing for ``silence_s``. Requests run side by side: a kill
        does not hold up a log window."""
        try:
            while (line := await asyncio.wait_for(read_line(self._reader), silence_s)) and line != wire.BYE:
                try:
                    message = wire.parse(line)
                except Malformed:
                    continue
                if isinstance(message, Request):
                    task = asyncio.create_task(self._answer(message, handle))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except (ConnectionError, asyncio.TimeoutError):
            pass
        finally:
            for task in tuple(self._tasks):
                task.cancel()
            self.close()

    async def _answer(self, request: Request, handle: Handler) -> None:
        try:
            value = plain(await handle(request))
        except Refused as refused:
            self.send(wire.refusal_line(request.id, redacted_refusal(refused)))
        except Exception as error:  # noqa: BLE001 - a fault in one answer must not end the agent
            what = f"the agent failed at {request.do}: {type(error).__name__}: {error}"
            self.send(wire.refusal_line(request.id, redacted_refusal(Refused(what, "a fault in launchmon"))))
        else:
            self.send(wire.reply_line(request.id, value))

    def send(self, line: bytes) -> None:
        if self._writer.is_closing():
            return
        if self._packer is not None:
            line = self._packer.compress(line) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        self._writer.write(line)

    def send_event(self, event: Event, line: bytes) -> None:
        """A listener of a watch: samples are left out while the client does not keep up."""
        if isinstance(event, REPLACEABLE) and self._writer.transport.get_write_buffer_size() > BACKLOG:
            return
        self.send(line)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.close()


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """The next whole line; ``b""`` at the end, also where that tears a line, or when one is longer than
    :data:`wire.MAX_LINE`."""
    try:
        line = await reader.readline()
    except (ValueError, ConnectionError):
        return b""
    return line if line.endswith(b"\n") else b""  # passed on, a torn line would make one with whatever is sent next


def plain(value: Any) -> Any:
    """A reply as JSON values; dataclasses keep all their fields."""
    if isinstance(value, Event):
        return {"kind": value.kind, **codec.to_json(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {spec.name: plain(getattr(value, spec.name)) for spec in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value
