"""Listening sockets by netlink (sock_diag(7)): the kernel walks its few listeners only.

``/proc/net/tcp`` says the same after walking the table of all connections, which takes it milliseconds on any machine.
"""

from __future__ import annotations

import socket
import struct

from launchmon_agent.sensors import netlink

_BY_FAMILY = 20
_LISTEN_ONLY = 1 << 10

_REQUEST = struct.Struct("=BBBxI")  # inet_diag_req_v2: family, protocol, extensions, states; then a sockid
_SOCKID = struct.Struct("!HH16s16s12x")  # inet_diag_sockid: ports, addresses, interface, cookie
_ANSWER = struct.Struct("=BBBB48s16xI")  # inet_diag_msg: family, state, timer, retransmits, sockid, …, inode


def listeners(port: int) -> dict[int, str] | None:
    """TCP sockets that listen on ``port`` in this process's network namespace: inode → local address.

    None when the kernel has no such interface.
    """
    found: dict[int, str] = {}
    try:
        for wanted in (socket.AF_INET, socket.AF_INET6):
            question = _REQUEST.pack(wanted, socket.IPPROTO_TCP, 0, _LISTEN_ONLY) + _SOCKID.pack(port, 0, b"", b"")
            for answer in netlink.dump(netlink.SOCK_DIAG, _BY_FAMILY, question, _BY_FAMILY):
                family, _, _, _, sockid, inode = _ANSWER.unpack_from(answer)
                local_port, _, address, _ = _SOCKID.unpack(sockid)
                if local_port == port:
                    found[inode] = socket.inet_ntop(family, address[: 4 if family == socket.AF_INET else 16])
    except OSError:
        return None
    return found
