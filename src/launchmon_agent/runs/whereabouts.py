"""On which machine a run is. Several may share the directory of runs: a home on NFS, a volume of containers.

A process is known by its pid and start time on its own machine only: on another one every run would seem to have ended.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from launchmon_agent.machine import PROC, boot_id


@dataclass(frozen=True)
class Machine:
    """As its own kernel names it. Containers of one machine have the same ``boot_id`` and other ``processes``."""

    hostname: str
    boot_id: str | None = None  # random(4): another one after each start
    processes: str | None = None  # its pid namespace, namespaces(7)


def this_machine() -> Machine:
    try:
        processes = os.readlink(f"{PROC}/self/ns/pid")
    except OSError:
        processes = None
    return Machine(socket.gethostname(), boot_id(), processes)


def is_here(machine: Machine) -> bool:
    """Whether processes of that machine can be seen here: it is this one, also under another name or started again."""
    here = this_machine()
    same_kernel = None not in (here.boot_id, here.processes) and (
        (machine.boot_id, machine.processes) == (here.boot_id, here.processes)
    )
    return machine.hostname == here.hostname or same_kernel
