"""Questions to the kernel by netlink(7): one request, answers that may fill several messages."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

ROUTE = 0
SOCK_DIAG = 4
TIMEOUT_S = 1.0

_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # nlattr: length, type


def dump(protocol: int, question: int, body: bytes, answer: int) -> Iterator[bytes]:
    """The bodies of the messages of type ``answer``. Raises OSError, also when the kernel knows no such question."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as kernel:
        kernel.settimeout(TIMEOUT_S)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), question, _DUMP, 1, 0) + body)
        while True:
            data = kernel.recv(64 * 1024)
            place = 0
            while place + _HEADER.size <= len(data):
                length, kind, *_ = _HEADER.unpack_from(data, place)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEADER.size:
                    raise OSError("the kernel does not answer this question")
                if kind == answer:
                    yield data[place + _HEADER.size : place + length]
                place += _aligned(length)


def attributes(data: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    """(type, value) of the attributes that begin at ``place``."""
    while place + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, place)
        if length < _ATTRIBUTE.size:
            return
        yield kind, data[place + _ATTRIBUTE.size : place + length]
        place += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
