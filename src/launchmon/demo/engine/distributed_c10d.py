"""Collectives over a ring of socket pairs: each rank receives from its predecessor and sends to its successor.

One rank, the leader, sends first and thereby starts the ring; all others receive first. A group whose members do not
agree on the leader can have none, and then every rank waits for its predecessor for ever: a true circular wait.

Each collective blocks in a ``recv`` of its own, in a single C call, so that a stack dump ends in ``all_reduce``,
``barrier`` or ``broadcast`` as it does with torch; that is why the loops below do not share a helper.
"""

from __future__ import annotations

import socket
import struct

_VALUE = struct.Struct("<d")
_LENGTH = struct.Struct("<q")
_TOKEN = _LENGTH.pack(0)


class ProcessGroup:
    """One rank's place in the ring. A group of one has no sockets, and its collectives return at once."""

    def __init__(
        self, rank: int, size: int, predecessor: socket.socket | None, successor: socket.socket | None, leader: int = 0
    ) -> None:
        self.rank = rank
        self.size = size
        self.predecessor = predecessor
        self.successor = successor
        self.leads = rank == leader

    def led_by(self, leader: int) -> ProcessGroup:
        """The same ranks and sockets under another leader."""
        return ProcessGroup(self.rank, self.size, self.predecessor, self.successor, leader)


def _create_c10d_store(group: ProcessGroup) -> None:
    """Rendezvous: returns when every rank has arrived. Raises :class:`RuntimeError` when a peer has died."""
    predecessor, successor = group.predecessor, group.successor
    if predecessor is None or successor is None:
        return
    for _ in range(2):
        if group.leads:
            _send(successor, _TOKEN)
        _whole(predecessor.recv(_LENGTH.size, socket.MSG_WAITALL), _LENGTH.size)
        if not group.leads:
            _send(successor, _TOKEN)


def barrier(group: ProcessGroup) -> None:
    """Returns when every rank has called it. Raises :class:`RuntimeError` when a peer has died."""
    predecessor, successor = group.predecessor, group.successor
    if predecessor is None or successor is None:
        return
    for _ in range(2):
        if group.leads:
            _send(successor, _TOKEN)
        _whole(predecessor.recv(_LENGTH.size, socket.MSG_WAITALL), _LENGTH.size)
        if not group.leads:
            _send(successor, _TOKEN)


def monitored_barrier(group: ProcessGroup) -> None:
    """As :func:`barrier`. SGLang ends the loading of the weights with it."""
    predecessor, successor = group.predecessor, group.successor
    if predecessor is None or successor is None:
        return
    for _ in range(2):
        if group.leads:
            _send(successor, _TOKEN)
        _whole(predecessor.recv(_LENGTH.size, socket.MSG_WAITALL), _LENGTH.size)
        if not group.leads:
            _send(successor, _TOKEN)


def all_reduce(value: float, group: ProcessGroup) -> float:
    """The smallest of all ranks' values. Raises :class:`RuntimeError` when a peer has died.

    The first trip round the ring finds the minimum, the second hands it to everybody.
    """
    predecessor, successor = group.predecessor, group.successor
    if predecessor is None or successor is None:
        return value
    for _ in range(2):
        if group.leads:
            _send(successor, _VALUE.pack(value))
        received = predecessor.recv(_VALUE.size, socket.MSG_WAITALL)
        value = min(value, _VALUE.unpack(_whole(received, _VALUE.size))[0])
        if not group.leads:
            _send(successor, _VALUE.pack(value))
    return value


def broadcast(payload: bytes, group: ProcessGroup) -> bytes:
    """The leader's payload (the others' is ignored). Raises :class:`RuntimeError` when a peer has died.

    The payload comes back to the leader, who so learns that everybody has it; a stopped peer stops the leader too.
    """
    predecessor, successor = group.predecessor, group.successor
    if predecessor is None or successor is None:
        return payload
    if group.leads:
        _send(successor, _LENGTH.pack(len(payload)) + payload)
    (length,) = _LENGTH.unpack(_whole(predecessor.recv(_LENGTH.size, socket.MSG_WAITALL), _LENGTH.size))
    if length:
        payload = _whole(predecessor.recv(length, socket.MSG_WAITALL), length)
    else:
        payload = b""
    if not group.leads:
        _send(successor, _LENGTH.pack(length) + payload)
    return payload


def _send(successor: socket.socket, data: bytes) -> None:
    try:
        successor.sendall(data)
    except OSError:
        raise _closed_by_peer() from None


def _whole(received: bytes, size: int) -> bytes:
    if len(received) != size:
        raise _closed_by_peer()
    return received


def _closed_by_peer() -> RuntimeError:
    """In gloo's words."""
    return RuntimeError(
        "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]. This is typically caused by a "
        "remote worker crashing. Check the logs of the remote worker before reporting an error."
    )
