"""Memory limit, use and out-of-memory kills of a process's control group, versions 2 and 1.

Use includes the page cache, which the kernel drops before it kills: near the limit is normal while weights are read.
Files are those of the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

from typing import NamedTuple

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.mounts import Mount, mounts

_NO_LIMIT = 1 << 60
"""Version 1 writes "no limit" as the largest number of whole pages."""

_FILES = {
    2: ("memory.max", "memory.current", "memory.events"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"),
}


class GroupMemory(NamedTuple):
    limit: int | None  # the tightest on the way up; None: no limit, or not readable
    used: int | None  # of the group that has the limit, else of the process's own
    oom_kills: int | None  # in the process's own group and those below it


class Group:
    """The memory files of one process's group, found once."""

    def __init__(self, pid: int | str = "self") -> None:
        text = (proc.read(f"{proc.PROC}/{pid}/cgroup") or b"").decode("utf-8", "replace")
        version, self._folders = find(text, mounts())
        self._limit, self._use, self._events = _FILES[version]

    def memory(self) -> GroupMemory:
        limit, used, kills = None, None, None
        for folder in self._folders:
            here = _number(proc.read(f"{folder}/{self._limit}"))
            if here is not None and here < _NO_LIMIT and (limit is None or here < limit):
                limit, used = here, _number(proc.read(f"{folder}/{self._use}"))
        for folder in self._folders[:1]:
            kills = _counter(proc.read(f"{folder}/{self._events}"), b"oom_kill")
            if limit is None:
                used = _number(proc.read(f"{folder}/{self._use}"))
        return GroupMemory(limit, used, kills)


def find(groups: str, among: list[Mount]) -> tuple[int, list[str]]:
    """The version (2 or 1) and the directories that count, the process's own first and then upwards.

    ``groups``: ``/proc/PID/cgroup``. Where memory is under version 1 (also in a mixed set-up), that is the one.
    """
    own: dict[str, str] = {}
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            own["cgroup"] = path
        elif number == "0" and not controllers:
            own["cgroup2"] = path
    for kind, version in (("cgroup", 1), ("cgroup2", 2)):
        for mount in among:
            counts = kind == "cgroup2" or "memory" in mount.options.split(",")
            if kind in own and mount.type == kind and counts:
                return version, _upwards(mount, own[kind])
    return 2, []


def _upwards(mount: Mount, path: str) -> list[str]:
    """A container mounts a part of the tree, ``root``: what is above is not to be seen."""
    root = mount.root.rstrip("/")
    if root and path.startswith(root):
        path = path[len(root) :]
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([mount.point, *parts[:length]]) for length in range(len(parts), -1, -1)]


def _number(data: bytes | None) -> int | None:
    text = (data or b"").strip()
    return int(text) if text.isdigit() else None


def _counter(data: bytes | None, name: bytes) -> int | None:
    for line in (data or b"").splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return None
