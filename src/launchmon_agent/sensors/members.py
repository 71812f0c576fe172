"""Which processes belong to a run, at the price of one listing of ``/proc`` a second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.proc import Stat
from launchmon_agent.sensors.procfiles import ProcessFiles
from launchmon_agent.sglang.titles import Name, Title

RESCAN_S = 10.0
"""A process is looked at once and then known as foreign or ours by its pid; where the kernel does not say which pids it
has given out since, this often all are looked at again."""

RESCAN_ALL_S = 60.0
"""The same where it says so: pids can also be asked for, as those who restore checkpoints do."""

KEPT = 40
"""Processes of which the files stay open, the oldest of a run: launcher and ranks come before what they start. With six
descriptors each they stay far below the usual limit of 1024."""


@dataclass(eq=False)
class Member:
    """A process of the run. ``parent`` is the one at first sight: it stays when the process is orphaned."""

    stat: Stat
    parent: Member | None
    files: ProcessFiles
    is_launcher: bool = False
    argv: tuple[str, ...] = ()
    comm: str = ""  # when argv was read
    title: Title | None = None
    name: Name | None = None  # set for what is listed as a process of the run, see roster.py
    kind: str | None = None  # set for the others, see kinds.py
    seen_at: float = 0.0
    titled_at: float | None = None  # when argv was read

    @property
    def pid(self) -> int:
        return self.stat.pid

    def ancestors(self) -> Iterator[Member]:
        member = self.parent
        while member is not None:
            yield member
            member = member.parent


def started(member: Member) -> tuple[int, int]:
    """Sorts by start."""
    return member.stat.start_ticks, member.pid


class Members:
    """Descendants of the launcher, its session's members where one is given, and those that were either once."""

    def __init__(self, launcher_pid: int, launcher_start: float | None, session: int | None) -> None:
        """``launcher_start`` None: whoever has the pid now is believed to be the launcher."""
        self._launcher_pid = launcher_pid
        self._launcher_start = launcher_start
        self._session = session
        self._foreign: set[int] = set()
        self._zombies: dict[int, int] = {}  # pid → start ticks of those that have ended and still have an entry
        self._scanned_at: float | None = None
        self._newest: int | None = None  # pid that the kernel had given out last, before the last listing
        self.alive: dict[int, Member] = {}

    @property
    def launcher(self) -> Member | None:
        """None: it has ended, or has not been seen yet."""
        member = self.alive.get(self._launcher_pid)
        return member if member is not None and member.is_launcher else None

    def refresh(self, now: float) -> list[Member]:
        """Look who is there. Returns those who have ended since, as they were last seen: as a zombie, or before."""
        newest = proc.newest_pid()
        listed = set(proc.pids())
        known = newest is not None and self._newest is not None
        if self._scanned_at is None or not 0 <= now - self._scanned_at < (RESCAN_ALL_S if known else RESCAN_S):
            self._foreign.clear()
            self._scanned_at = now
        self._foreign &= listed
        if newest is not None and self._newest is not None and newest != self._newest:
            self._foreign = {pid for pid in self._foreign if not _between(self._newest, pid, newest)}
        self._newest = newest
        self._zombies = {pid: ticks for pid, ticks in self._zombies.items() if pid in listed}
        ended = self.check()
        self._join(proc.stat(pid) for pid in listed - self._foreign - self.alive.keys())
        return ended + [self._bury(member) for member in list(self.alive.values()) if member.stat.dead]

    def check(self) -> list[Member]:
        """Read the known members again; returns those who have ended."""
        ended = []
        for member in list(self.alive.values()):
            row = member.files.stat()
            if row is not None and row.start_ticks == member.stat.start_ticks:
                member.stat = row
                if not row.dead:
                    continue
            ended.append(self._bury(member))
        return ended

    def _bury(self, member: Member) -> Member:
        self._zombies[member.pid] = member.stat.start_ticks
        member.files.close()
        return self.alive.pop(member.pid)

    def _join(self, rows: Iterable[Stat | None]) -> None:
        """Sort new processes into ours and foreign; parents may be among the new ones themselves."""
        unknown = (row for row in rows if row is not None and self._zombies.get(row.pid) != row.start_ticks)
        new = sorted(unknown, key=lambda row: (row.start_ticks, row.pid))
        joined = True
        while joined:
            joined, rest = False, []
            for row in new:
                parent = self.alive.get(row.ppid)
                if self._is_launcher(row):
                    self._add(row, None, is_launcher=True)
                    joined = True
                elif parent is not None or row.session == self._session:
                    self._add(row, parent)
                    joined = True
                else:
                    rest.append(row)
            new = rest
        self._foreign.update(row.pid for row in new)

    def _add(self, row: Stat, parent: Member | None, *, is_launcher: bool = False) -> None:
        files = ProcessFiles(row.pid, keep=len(self.alive) < KEPT)
        self.alive[row.pid] = Member(row, parent, files, is_launcher)

    def _is_launcher(self, row: Stat) -> bool:
        if row.pid != self._launcher_pid:
            return False
        if self._launcher_start is None:
            self._launcher_start = row.start_time
        return abs(row.start_time - self._launcher_start) < proc.SAME_S


def _between(after: int, pid: int, upto: int) -> bool:
    """Pids are given out in rising order and then from the start again (pid_namespaces(7))."""
    return after < pid <= upto if after <= upto else pid > after or pid <= upto
