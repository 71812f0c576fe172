"""The kernel's own list of addresses, held against another program's reading of it."""

from __future__ import annotations

import socket

import psutil

from launchmon_agent.sensors.addresses import local_addresses


def test_all_addresses_of_this_machine_and_no_others() -> None:
    families = (socket.AF_INET, socket.AF_INET6)
    every = (one for interface in psutil.net_if_addrs().values() for one in interface if one.family in families)
    assert local_addresses() == {one.address.partition("%")[0] for one in every}
