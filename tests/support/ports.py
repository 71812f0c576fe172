"""Ports for the servers of tests."""

from __future__ import annotations

import random
import socket

_CHOICE = random.SystemRandom()
_taken: list[socket.socket] = []


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port on which nobody listens, for this process alone as long as it lives.

    The server binds it seconds later, so it comes from below the range out of which the system gives ports to others
    (32768 on, ip(7)); and an abstract Unix socket of its number keeps other tests of this machine away.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        port = _CHOICE.randrange(10_240, 20_000)
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0launchmon-test-port-{port}")
            with socket.socket(family) as probe:
                probe.bind((host, port))
        except OSError:
            mark.close()
            continue
        _taken.append(mark)
        return port
