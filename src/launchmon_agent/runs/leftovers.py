"""What a server can leave behind besides processes: its port, and files in ``/dev/shm``.

SGLang leaves shared memory even after an orderly end (25 MB a message queue), and its own comment says that a full
``/dev/shm`` kills the next scheduler with SIGBUS. Nothing is removed here; it is named.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable

from launchmon_agent.runs.checks import describe
from launchmon_agent.sensors import proc

SHM = "/dev/shm"  # noqa: S108 - only looked at

_WITH_PID = re.compile(
    r"^(?:sgl_shm_mq|sglang_\w+?|torch|nccl|psm|cuda\.shm)[-_.](?:\w*?[-_.])??(?P<pid>\d+)(?:[-_.]|$)"
)
"""Names in /dev/shm that carry their maker's pid: ``sgl_shm_mq_4711_ab12`` (0.5.14+), ``torch_4711_…``.

Not those of multiprocessing's semaphores, ``sem.mp-`` and eight random characters, which may look so.
"""


def shm_in_use(pids: Iterable[int], shm: str = SHM) -> set[str]:
    """Files of ``/dev/shm`` that these processes have open or mapped."""
    found: set[str] = set()
    for pid in pids:
        found.update((proc.fd_links(pid) or {}).values())
        for line in (proc.read(f"{proc.PROC}/{pid}/maps") or b"").split(b"\n"):
            if shm.encode() in line:
                found.add(os.fsdecode(line.split(None, 5)[-1]))
    return {path for path in found if path.startswith(shm + "/") and not path.endswith(" (deleted)")}


def shm_left(used: Iterable[str], pids: Iterable[int], shm: str = SHM) -> str | None:
    """One sentence about the files of ``/dev/shm`` that are still there, or None.

    ``used``: those that the run had open; ``pids``: of the run, for files that carry one in their name.
    """
    wanted = set(pids)
    paths = set(used)
    with contextlib.suppress(OSError):
        for name in os.listdir(shm):
            match = _WITH_PID.match(name)
            if match and int(match["pid"]) in wanted:
                paths.add(os.path.join(shm, name))
    sizes: dict[str, int] = {}
    for path in sorted(paths):
        with contextlib.suppress(OSError):
            sizes[path] = os.lstat(path).st_blocks * 512
    if not sizes:
        return None
    total = sum(sizes.values()) / 1e6
    count = f"{len(sizes)} file{'s' * (len(sizes) > 1)}"
    return f"{count} in {shm}, {total:.1f} MB: {' '.join(sizes)}"


class PortWatch:
    """The server's port, in the network namespace of the process that asks, before and after a kill."""

    def __init__(self, port: int | None, ours: Iterable[int]) -> None:
        """``ours``: pids of the run. A listener that is somebody else's already now is never reported."""
        self.port = port
        self._ours = tuple(ours)
        self.readable = port is not None and not _in_other_namespace(self._ours)
        self._foreign: set[int] = set()
        if self.readable:
            for inode in self._inodes():
                if proc.socket_owner({inode}, self._ours) not in self._ours:
                    self._foreign.add(inode)

    @property
    def foreign(self) -> bool:
        """Whether the port was another server's before the kill."""
        return bool(self._foreign)

    def held(self) -> str | None:
        """Who listens there now, in one sentence; None when it is free, or was never this run's."""
        if not self.readable:
            return None
        inodes = self._inodes() - self._foreign
        if not inodes:
            return None
        owner = proc.socket_owner(inodes, self._ours)
        if owner is None:
            return f"port {self.port} is still held, by a process that this user may not look at"
        return f"port {self.port} is held by process {owner}: {describe(owner)}"

    def _inodes(self) -> set[int]:
        return proc.listening_inodes(os.getpid(), self.port or 0) or set()


def _in_other_namespace(pids: Iterable[int]) -> bool:
    """Whether the run lives in another network namespace than we, where its port cannot be seen from here."""
    own = proc.namespace("self", "net")
    theirs = {proc.namespace(pid, "net") for pid in pids} - {None}
    return bool(theirs) and own not in theirs
