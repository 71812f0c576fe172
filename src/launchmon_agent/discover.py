"""Which SGLang servers run on this machine, whoever started them, and where their logs are.

A server is found by its launcher's command line; by its ranks' titles when a script of its own started it; or, when the
launcher has died, as a group of orphaned ranks. Reads ``/proc`` and asks tmux; changes nothing. About 0.1 s
with a server running. Blocking; for a thread.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launchmon_agent.errors import Refused
from launchmon_agent.installed import sglang_version
from launchmon_agent.output import Output, find_output, pane_of, tmux_panes
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import RunFile
from launchmon_agent.runs.members import Identity, Snapshot, learn, members
from launchmon_agent.runs.outlets import Pane
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.proc import Stat
from launchmon_agent.sglang import titles
from launchmon_agent.sglang.command import Command, is_python, parse

_RANKS = (titles.SCHEDULER, titles.DP_CONTROLLER, titles.DETOKENIZER)
_SLACK_S = 1.5


@dataclass(frozen=True)
class Found:
    """A server that runs here."""

    pid: int  # the launcher; of orphans the oldest of them
    start_time: float
    argv: tuple[str, ...]  # may hold secrets; empty for orphans
    cwd: str | None
    user: str
    ranks: int  # schedulers alive that have their title
    pids: tuple[int, ...]  # all its processes, launcher first
    output: Output
    tmux: Pane | None = None  # the pane it runs in, wherever its log goes
    run_id: str | None = None  # launched by launchmon
    engine_version: str | None = None
    orphaned: bool = False  # its launcher is dead

    @property
    def command(self) -> Command:
        return parse(self.argv)

    @property
    def port(self) -> int | None:
        return self.command.port

    @property
    def log(self) -> str | None:
        return self.output.path

    @property
    def log_source(self) -> str:
        return self.output.source

    @property
    def log_note(self) -> str | None:
        return self.output.note

    @property
    def pane(self) -> Pane | None:
        """The pane that the log is to be read from; None where it is a file."""
        return self.output.pane

    @property
    def simulated(self) -> bool:
        return self.command.simulated

    def describe(self) -> str:
        """``pid 4711, port 30000, /models/kimi, tp 8``: to tell it from others."""
        if self.orphaned:
            return f"pid {self.pid}: {self.ranks} ranks whose launcher is dead"
        command = self.command
        sizes = [
            f"{name} {size}" for name, size in (("tp", command.tp), ("dp", command.dp), ("pp", command.pp)) if size > 1
        ]
        parts = [f"pid {self.pid}", f"port {command.port}" if command.port else "", command.model or "", *sizes]
        return ", ".join(part for part in parts if part)


def discover(root: str | None = None) -> list[Found]:
    """Every server that this user can see, newest first. ``root``: where launched runs are kept (default: ours)."""
    snapshot = Snapshot(proc.table())
    launched = [run for _, run in directory.runs(root) if directory.elsewhere(run) is None]
    panes: list[Pane] | None = None
    found = []
    for pid, orphans in (*_launchers(snapshot), *_orphan_groups(snapshot)):
        panes = tmux_panes(pid) if panes is None else panes
        found.append(_describe(pid, orphans, snapshot, launched, panes))
    return sorted(found, key=lambda one: one.start_time, reverse=True)


def select(
    found: Sequence[Found],
    run: str | None = None,
    pid: int | None = None,
    port: int | None = None,
    tmux: str | None = None,
) -> Found:
    """The one that is meant; with no selector the only one. Raises :class:`Refused` that lists the candidates."""
    given = {"id": run, "process": pid, "port": port, "tmux pane": tmux}
    asked = " and ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    if not found:
        what = (
            f"No server here has {asked}: no SGLang server is running here"
            if asked
            else "No SGLang server is running here"
        )
        raise Refused(what, "none was started, or it has ended", "launchmon runs")
    meant = list(found)
    for value, wanted in (
        (run, lambda one: run in (one.run_id, f"pid-{one.pid}") or (one.run_id is not None and str(run) in one.run_id)),
        (pid, lambda one: pid in one.pids),
        (port, lambda one: one.port == port),
        (tmux, lambda one: any(pane is not None and pane.is_named(str(tmux)) for pane in (one.tmux, one.pane))),
    ):
        if value is not None:
            meant = [one for one in meant if wanted(one)]
    if port is not None and len(meant) != 1:
        owner = proc.port_owner(os.getpid(), port)
        meant = [one for one in (meant or found) if owner in one.pids] or meant
    if len(meant) == 1:
        return meant[0]
    if meant:
        what = f"Several servers are meant by {asked}" if asked else "Several servers are running here"
        cause = "one has to be chosen"
    else:
        what, cause = f"No server here has {asked}", "it has ended, or is another one of those that are running"
    candidates = meant or list(found)
    listed = "; ".join(one.describe() for one in candidates)
    raise Refused(f"{what}: {listed}", cause, f"launchmon attach --pid {candidates[0].pid}")


def _launchers(snapshot: Snapshot) -> Iterator[tuple[int, list[int]]]:
    """(launcher, no orphans) of each server that has one: an SGLang command, or a script with ranks as children."""
    owners: set[int] = set()
    for pid, row in snapshot.rows.items():
        title = None if row.dead else snapshot.title(pid)
        if title is None:
            continue
        above = [parent for parent in snapshot.ancestors(pid) if _is_launcher(parent, snapshot)]
        if title.role == titles.LAUNCHER:
            # A child that was forked a moment ago still has the launcher's command line.
            owners.add(above[-1] if above else pid)
        elif title.role in _RANKS and not above:
            owner = _script_of(row, snapshot)
            if owner is not None:
                owners.add(owner)
    for pid in sorted(owners):
        yield pid, []


def _orphan_groups(snapshot: Snapshot) -> Iterator[tuple[int, list[int]]]:
    """(oldest, all) of each group of ranks that have lost their launcher."""
    groups: dict[tuple[int, int, str | None], list[int]] = {}
    for pid, row in sorted(snapshot.rows.items(), key=lambda item: (item[1].start_ticks, item[0])):
        title = None if row.dead else snapshot.title(pid)
        if title is None or title.role not in _RANKS or _script_of(row, snapshot) is not None:
            continue
        if not any(_is_launcher(parent, snapshot) for parent in snapshot.ancestors(pid)):
            groups.setdefault((row.session, row.pgrp, snapshot.run_id(pid)), []).append(pid)
    for pids in groups.values():
        yield pids[0], pids


def _is_launcher(pid: int, snapshot: Snapshot) -> bool:
    title = snapshot.title(pid)
    return title is not None and title.role == titles.LAUNCHER


def _script_of(row: Stat, snapshot: Snapshot) -> int | None:
    """The Python program that started this rank itself, through an Engine. None: the rank is an orphan."""
    parent = snapshot.rows.get(row.ppid)
    while parent is not None and parent.session == row.session and parent.pid > 1:
        title = snapshot.title(parent.pid)
        if title is None:
            argv = proc.cmdline(parent.pid)
            return parent.pid if argv and is_python(argv[0]) else None
        if title.role == titles.LAUNCHER:
            return parent.pid
        parent = snapshot.rows.get(parent.ppid)  # the DP controller
    return None


def _describe(
    pid: int, orphans: list[int], snapshot: Snapshot, launched: Sequence[RunFile], panes: list[Pane]
) -> Found:
    row = snapshot.rows[pid]
    identity = Identity(pid, row.start_time)
    known = [(one, snapshot.rows[one].start_time) for one in orphans]
    identity = learn(identity, orphans or [pid], snapshot)
    pids = members(identity, known, snapshot)
    roles = [title.role for title in map(snapshot.title, pids) if title is not None]
    return Found(
        pid=pid,
        start_time=row.start_time,
        argv=() if orphans else tuple(proc.cmdline(pid)),
        cwd=_cwd(pid),
        user=_user(pid),
        ranks=roles.count(titles.SCHEDULER),
        pids=(pid, *(one for one in pids if one != pid)),
        output=find_output(pid, panes),
        tmux=pane_of(pid, panes),
        run_id=_run_id(row, launched, snapshot),
        engine_version=sglang_version(pid),
        orphaned=bool(orphans),
    )


def _run_id(row: Stat, launched: Sequence[RunFile], snapshot: Snapshot) -> str | None:
    """The launched run whose session this is: its number is the server's pid, and not given anew while it lasts."""
    for run in launched:
        server = run.server
        if server is None or row.session != server.pid or row.start_time < server.start_time - _SLACK_S:
            continue
        if server.pid not in snapshot.rows or snapshot.is_same(server.pid, server.start_time):
            return run.id
    return None


def _cwd(pid: int) -> str | None:
    try:
        return os.readlink(f"{proc.PROC}/{pid}/cwd")
    except OSError:
        return None


def _user(pid: int) -> str:
    try:
        uid = os.stat(f"{proc.PROC}/{pid}").st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
