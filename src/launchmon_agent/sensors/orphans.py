"""Processes of earlier launches that have lost their launcher: they hold GPU memory and ports, and nobody ends them.

A whole process table is read, so it is for now and then, not for every second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launchmon_agent.events import Leftovers, Orphan
from launchmon_agent.sensors import proc
from launchmon_agent.sglang import titles

KEEPER_COMM = "launchmon-keep"

_ROLES = (titles.SCHEDULER, titles.DETOKENIZER, titles.DP_CONTROLLER)
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_LISTEN = b"0A"


def orphans(before: float | None = None) -> tuple[Orphan, ...]:
    """Ranks whose parent is init, or a keeper that took them over from a server that is gone.

    ``before``: only those that were started before then (seconds since the epoch).
    """
    rows = proc.table()
    found = []
    for pid, row in sorted(rows.items()):
        if row.dead or not row.comm.startswith("sglang::") or (before is not None and row.start_time >= before):
            continue
        title = titles.read_title(proc.cmdline(pid), row.comm)
        parent = rows.get(row.ppid)
        adopted = row.ppid in (0, 1) or parent is None or parent.comm == KEEPER_COMM
        if title is None or not adopted or (parent is not None and _is_launcher(parent.pid, parent.comm)):
            continue
        if title.role in _ROLES:
            found.append(Orphan(pid, row.start_time, title.text, _ports(pid)))
    return tuple(found)


def leftovers(run_began: float | None, now: float) -> Leftovers:
    """Those of launches before this one: its own ranks may be orphans too, by its own failure."""
    return Leftovers(now, orphans(before=run_began))


def _is_launcher(pid: int, comm: str) -> bool:
    title = titles.read_title(proc.cmdline(pid), comm)
    return title is not None and title.role == titles.LAUNCHER


def _ports(pid: int) -> tuple[int, ...]:
    """TCP ports on which a process listens; empty too where that cannot be seen."""
    inodes = {match[1] for link in (proc.fd_links(pid) or {}).values() if (match := _SOCKET.fullmatch(link))}
    listening = _listening(pid) if inodes else {}
    return tuple(sorted({port for inode, port in listening.items() if inode in inodes}))


def _listening(pid: int) -> Mapping[str, int]:
    """Inode → port of each listening TCP socket in the network namespace of a process."""
    found = {}
    for family in ("tcp", "tcp6"):
        for line in (proc.read(f"{proc.PROC}/{pid}/net/{family}") or b"").split(b"\n")[1:]:
            fields = line.split(None, 10)
            if len(fields) > 9 and fields[3] == _LISTEN:
                found[fields[9].decode("ascii")] = int(fields[1].rpartition(b":")[2], 16)
    return found
