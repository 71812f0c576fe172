"""Which processes belong to a run, so that a kill ends all of them and nobody else's.

SGLang never leaves its launcher's session and process group, not even with orphans, so:

* of a run that launchmon launched, which has a session of its own, everything in that session belongs to it;
* of a run that somebody else started, in a session shared with a shell and perhaps with other servers, only the
  launcher's descendants belong to it, and orphans: processes that SGLang or multiprocessing has named, in the
  launcher's process group or session, younger than the launcher, whose parent is no living program of their own, and
  whose ``SGLANG_RUN_ID`` (set by the launcher for its children, 0.5.1+) is not another run's.

Our own process and its ancestors belong to no run. A process, once it was recognised, stays recognised.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.proc import Stat
from launchmon_agent.sglang import titles
from launchmon_agent.sglang.titles import Title, read_title

_SLACK_S = 1.5
"""Start times of one process differ by this much between two readers (see :mod:`launchmon_agent.sensors.proc`)."""

_RUN_ID = "SGLANG_RUN_ID"


class Snapshot:
    """All processes at one moment. Titles, variables and outputs are read when they are asked for, once."""

    def __init__(
        self,
        rows: Mapping[int, Stat],
        argv_of: Callable[[int], list[str]] = proc.cmdline,
        environ_of: Callable[[int], dict[str, str] | None] = proc.environ,
        links_of: Callable[[int], dict[int, str] | None] = proc.fd_links,
        own_pid: int | None = None,
    ) -> None:
        self.rows = rows
        self._argv_of = argv_of
        self._environ_of = environ_of
        self._links_of = links_of
        self._titles: dict[int, Title | None] = {}
        self._below: dict[int, list[int]] | None = None
        own = os.getpid() if own_pid is None else own_pid
        self.protected = frozenset({0, 1, own, *self.ancestors(own)})

    def title(self, pid: int) -> Title | None:
        if pid not in self._titles:
            row = self.rows.get(pid)
            self._titles[pid] = None if row is None else read_title(self._argv_of(pid), row.comm)
        return self._titles[pid]

    def run_id(self, pid: int) -> str | None:
        return (self._environ_of(pid) or {}).get(_RUN_ID)

    def writes_to(self, pid: int, path: str) -> bool:
        """Whether stdout or stderr of the process is that file."""
        links = self._links_of(pid) or {}
        return path in (links.get(1), links.get(2))

    def is_same(self, pid: int, start_time: float) -> bool:
        row = self.rows.get(pid)
        return row is not None and abs(row.start_time - start_time) < _SLACK_S

    def ancestors(self, pid: int) -> list[int]:
        """Parent, its parent and so on, as far as this pid namespace shows them."""
        found: list[int] = []
        row = self.rows.get(pid)
        while row is not None and row.ppid > 0 and row.ppid not in found:
            found.append(row.ppid)
            row = self.rows.get(row.ppid)
        return found

    def with_descendants(self, roots: Iterable[int]) -> set[int]:
        if self._below is None:
            self._below = {}
            for row in self.rows.values():
                self._below.setdefault(row.ppid, []).append(row.pid)
        found: set[int] = set()
        todo = [pid for pid in roots if pid in self.rows]
        while todo:
            pid = todo.pop()
            if pid not in found:
                found.add(pid)
                todo += self._below.get(pid, ())
        return found


@dataclass(frozen=True)
class Identity:
    """What a run is known by. ``pid`` is None for ranks whose launcher was never seen."""

    pid: int | None
    start_time: float | None
    launched: bool = False  # by launchmon: a session of its own, whose number is ``pid``
    log: str | None = None  # of a launched run
    groups: frozenset[tuple[int, int]] = frozenset()  # (session, process group) of the launcher of a foreign run
    ancestors: frozenset[int] = frozenset()  # of that launcher: an orphan may have been given to one of them
    run_ids: frozenset[str] = frozenset()  # values of SGLANG_RUN_ID seen in the run


def learn(run: Identity, seen: Iterable[int], snapshot: Snapshot) -> Identity:
    """The identity with what its living members show; to be kept, since they may be gone at the next look."""
    groups, run_ids = set(run.groups), set(run.run_ids)
    ancestors = set(run.ancestors)
    for pid in seen:
        row = snapshot.rows[pid]
        groups.add((row.session, row.pgrp))
        title = snapshot.title(pid)
        if title is not None and title.role in (titles.SCHEDULER, titles.HELPER, titles.SPAWNING):
            run_id = snapshot.run_id(pid)
            if run_id:
                run_ids.add(run_id)
        if pid == run.pid:
            ancestors.update(snapshot.ancestors(pid))
    return Identity(
        run.pid,
        run.start_time,
        run.launched,
        run.log,
        frozenset(groups),
        frozenset(ancestors),
        frozenset(run_ids),
    )


def members(run: Identity, known: Iterable[tuple[int, float]], snapshot: Snapshot) -> list[int]:
    """Pids of the run, zombies included, in order of their start. ``known``: (pid, start time) seen to belong to it."""
    roots = {pid for pid, start_time in known if snapshot.is_same(pid, start_time)}
    launcher_there = run.pid is not None and run.start_time is not None and snapshot.is_same(run.pid, run.start_time)
    if launcher_there and run.pid is not None:
        roots.add(run.pid)
    found = snapshot.with_descendants(roots)
    if run.launched:
        found |= _session(run, found, launcher_there, snapshot)
    else:
        found |= snapshot.with_descendants(_orphans(run, found, snapshot))
    return sorted(found - snapshot.protected, key=lambda pid: (snapshot.rows[pid].start_ticks, pid))


def _session(run: Identity, found: set[int], launcher_there: bool, snapshot: Snapshot) -> set[int]:
    """Everything in the run's own session, if it still is the run's.

    A number is not given to a new session while anyone is left in the old one. So the session is ours if one of its
    processes is: the launcher, one seen before, or one that writes to the run's log.
    """
    if run.pid is None or (run.pid in snapshot.rows and not launcher_there):
        return set()
    session = {row.pid for row in snapshot.rows.values() if row.session == run.pid and _is_younger(run, row)}
    is_ours = launcher_there or bool(session & found)
    if not is_ours and run.log is not None:
        is_ours = any(snapshot.writes_to(pid, run.log) for pid in session)
    return snapshot.with_descendants(session) if is_ours else set()


def _orphans(run: Identity, found: set[int], snapshot: Snapshot) -> Iterator[int]:
    sessions = {session for session, _ in run.groups}
    for row in snapshot.rows.values():
        if row.pid in found or row.session not in sessions or not _is_younger(run, row):
            continue
        title = snapshot.title(row.pid)
        if title is None or title.role == titles.LAUNCHER or not _is_orphan(run, row, snapshot):
            continue
        run_id = snapshot.run_id(row.pid)
        if run_id is not None and run.run_ids:
            if run_id in run.run_ids:
                yield row.pid
        elif (row.session, row.pgrp) in run.groups:
            yield row.pid


def _is_orphan(run: Identity, row: Stat, snapshot: Snapshot) -> bool:
    """Whether the parent of a process that SGLang named is only the one it was given to when its own had died."""
    parent = snapshot.rows.get(row.ppid)
    return parent is None or parent.pid == 1 or parent.session != row.session or parent.pid in run.ancestors


def _is_younger(run: Identity, row: Stat) -> bool:
    return run.start_time is None or row.start_time > run.start_time - _SLACK_S
