"""The addresses of this machine, by rtnetlink(7): all interfaces of this process's network namespace, both families."""

from __future__ import annotations

import socket
import struct

from launchmon_agent.sensors import netlink

_NEW_ADDRESS, _GET_ADDRESS = 20, 22
_MESSAGE = struct.Struct("=BBBBI")  # ifaddrmsg: family, prefix length, flags, scope, interface
_ADDRESS, _LOCAL = 1, 2
"""Attributes: of a point-to-point link the first is the other side's."""
_SIZES = {socket.AF_INET: 4, socket.AF_INET6: 16}


def local_addresses() -> frozenset[str]:
    """As ``inet_ntop`` writes them, without an interface behind a ``%``; empty where the kernel does not tell."""
    found = set()
    try:
        for body in netlink.dump(netlink.ROUTE, _GET_ADDRESS, _MESSAGE.pack(0, 0, 0, 0, 0), _NEW_ADDRESS):
            family = _MESSAGE.unpack_from(body)[0]
            values = dict(netlink.attributes(body, _MESSAGE.size))
            value = values.get(_LOCAL, values.get(_ADDRESS, b""))
            if len(value) == _SIZES.get(family):
                found.add(socket.inet_ntop(family, value))
    except OSError:
        return frozenset()
    return frozenset(found)
