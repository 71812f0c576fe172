"""Messages between two processes of the server: one JSON object a line over a socket pair."""

from __future__ import annotations

import json
import select
import socket


class Closed(Exception):
    """The other side has gone."""


class Channel:
    """One end. Not for several readers at once."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = b""
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def send(self, message: dict[str, object]) -> None:
        """Raises :class:`Closed`."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise Closed from None

    def receive(self, timeout_s: float | None = None) -> dict[str, object] | None:
        """The next message, or None when none has come in time. Raises :class:`Closed`."""
        while b"\n" not in self._buffer:
            if not self._poll.poll(None if timeout_s is None else timeout_s * 1000):
                return None
            try:
                data = self._socket.recv(65536)
            except OSError:
                data = b""
            if not data:
                raise Closed
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, object] = json.loads(line)
        return message
