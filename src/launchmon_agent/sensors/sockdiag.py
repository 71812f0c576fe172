"""Listening sockets by netlink (sock_diag(7)): the kernel walks its few listeners only.

``/proc/net/tcp`` says the same after walking the table of all connections, which takes it milliseconds on any machine.
"""

from __future__ import annotations

import socket
import struct

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_LISTEN_ONLY = 1 << 10

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBxI")  # inet_diag_req_v2: family, protocol, extensions, states; then a sockid
_SOCKID = struct.Struct("!HH16s16s12x")  # inet_diag_sockid: ports, addresses, interface, cookie
_ANSWER = struct.Struct("=BBBB48s16xI")  # inet_diag_msg: family, state, timer, retransmits, sockid, …, inode
_TIMEOUT_S = 1.0


def listeners(port: int) -> dict[int, str] | None:
    """TCP sockets that listen on ``port`` in this process's network namespace: inode → local address.

    None when the kernel has no such interface.
    """
    found: dict[int, str] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            for family in (socket.AF_INET, socket.AF_INET6):
                body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _LISTEN_ONLY) + _SOCKID.pack(port, 0, b"", b"")
                kernel.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
                if not _receive(kernel, port, found):
                    return None
    except OSError:
        return None
    return found


def _receive(kernel: socket.socket, port: int, found: dict[int, str]) -> bool:
    """Read one dump to its end into ``found``. False: the kernel refuses the question."""
    while True:
        data = kernel.recv(64 * 1024)
        place = 0
        while place + _HEADER.size <= len(data):
            length, kind, *_ = _HEADER.unpack_from(data, place)
            if kind == _DONE:
                return True
            if kind == _ERROR or length < _HEADER.size:
                return False
            if kind == _BY_FAMILY:
                family, _, _, _, sockid, inode = _ANSWER.unpack_from(data, place + _HEADER.size)
                local_port, _, address, _ = _SOCKID.unpack(sockid)
                if local_port == port:
                    size = 4 if family == socket.AF_INET else 16
                    found[inode] = socket.inet_ntop(family, address[:size])
            place += (length + 3) & ~3
