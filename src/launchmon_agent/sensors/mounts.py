"""Which filesystem a path is on. Reading a path on a dead network filesystem can block for ever, so little is read."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass

from launchmon_agent.sensors import proc

RESOLVE_S = 0.5
"""Symbolic links are followed by a thread that is given this long: beyond it the path counts as written."""

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    point: str
    type: str  # as the kernel names it: ext4, nfs4, overlay, fuse.juicefs
    root: str  # the directory of the filesystem that is mounted here
    options: str  # of the superblock


def parse_mounts(text: str) -> list[Mount]:
    """``text`` is ``/proc/PID/mountinfo``, see proc(5)."""
    mounts = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if separator and len(fields) >= 6 and len(rest) >= 3:
            mounts.append(Mount(_plain(fields[4]), rest[0], _plain(fields[3]), rest[2]))
    return mounts


def mounts(pid: int | str = "self") -> list[Mount]:
    """In the order of mounting: of two on one directory the later one covers the other."""
    return parse_mounts((proc.read(f"{proc.PROC}/{pid}/mountinfo") or b"").decode("utf-8", "surrogateescape"))


def type_of(path: str, among: list[Mount]) -> str | None:
    """Type of the filesystem that holds ``path``, which is absolute and has no links; it need not exist."""
    best: Mount | None = None
    for mount in among:
        prefix = mount.point.rstrip("/") + "/"
        if (path + "/").startswith(prefix) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return None if best is None else best.type


def resolve(path: str) -> str:
    """Absolute and without symbolic links, unless following them takes too long."""
    absolute = os.path.abspath(os.path.expanduser(path))
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(os.path.realpath(absolute)), daemon=True)
    thread.start()
    thread.join(RESOLVE_S)
    return found[0] if found else absolute


def _plain(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)
