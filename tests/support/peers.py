"""TCP peers that misbehave, each a thread on a port of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Behaviour = Callable[[socket.socket, str], None]
"""Gets a connection and the path asked for; the connection is closed after it."""


class Peer:
    """Listens on a port of 127.0.0.1 and notes every request."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.requests: list[str] = []  # heads
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def paths(self) -> list[str]:
        return [head.split(" ")[1] for head in self.requests]

    def _serve(self) -> None:
        while self._open:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(OSError):
                head = b""
                while self._open and b"\r\n\r\n" not in head:
                    part = connection.recv(65536)
                    if not part:
                        break
                    head += part
                if head:
                    self.requests.append(head.decode())
                    self.behaviour(connection, self.paths[-1])

    def close(self) -> None:
        self._open = False
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass
        self._listener.close()


@contextlib.contextmanager
def peer(behaviour: Behaviour) -> Iterator[Peer]:
    one = Peer(behaviour)
    try:
        yield one
    finally:
        one.close()


def answers(**by_path: tuple[int, str]) -> Behaviour:
    """A well-behaved server: ``model_info=(200, "{}")``; other paths are 404."""

    def behave(connection: socket.socket, path: str) -> None:
        status, body = by_path.get(path.strip("/"), (404, '{"detail":"Not Found"}'))
        connection.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())

    return behave


def says(data: bytes) -> Behaviour:
    """Sends this, whatever is asked, and closes."""
    return lambda connection, _path: connection.sendall(data)


def until_gone(connection: socket.socket, _path: str) -> None:
    """Never answers."""
    connection.recv(1)


def drips(data: bytes) -> Behaviour:
    """Sends without an end, slowly."""

    def behave(connection: socket.socket, _path: str) -> None:
        connection.settimeout(0.02)
        connection.sendall(data)
        while True:
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                connection.sendall(b"x")

    return behave
