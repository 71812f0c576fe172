"""Ending a run in SGLang's own order.

TERM goes to the launcher alone: a signal to the group looks like a crash of the ranks to it. After a bounded grace
(a server that hangs with a request in flight never ends by itself) follow KILL for ranks, DP controller and
detokenizer, then for the launcher and what else there is; multiprocessing's resource tracker is left to tidy up
``/dev/shm`` first. Then the run is looked for until nothing of it is left for a while: children that were still
importing become orphans, and can appear late.

A kill is over when processes have ended, not when they were signalled. What remains is named.
"""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from launchmon_agent.events import Process, Run
from launchmon_agent.runs.checks import describe
from launchmon_agent.runs.handle import Handle
from launchmon_agent.runs.leftovers import PortWatch, shm_in_use, shm_left
from launchmon_agent.runs.members import Identity, Snapshot, learn, members
from launchmon_agent.sensors import proc
from launchmon_agent.sglang import titles

GRACE_S = 10.0
ORPHANS_S = 1.0
"""What children get to follow a launcher that has gone: the kernel kills most of them with it."""
TRACKER_S = 3.0
QUIET_S = 0.6
"""How long nothing of the run may be seen before the sweep ends."""
SWEEP_S = 30.0
HELD_S = 10.0
"""How long the port and the like may stay held by a run that has ended."""
_LOOK_S = 0.1

_ORDER = (titles.SCHEDULER, titles.SPAWNING, titles.DP_CONTROLLER, titles.DETOKENIZER, titles.TOKENIZER)
"""Roles in the order in which they are killed; launcher and the rest follow."""

Report = Callable[[str, str, str], None]
"""Called with a step (``TERM launcher``, ``wait``, …), its state (``doing``, ``done``, ``failed``) and a sentence."""

Held = Callable[[], "str | None"]
"""Says what a run that has ended still holds (GPU memory), or None."""


@dataclass(frozen=True)
class Victim:
    pid: int
    start_time: float
    role: str
    rank: str | None
    title: str
    state: str  # R S D T …


@dataclass(frozen=True)
class KillPlan:
    """What a kill would end now; more can appear while it lasts."""

    processes: tuple[Victim, ...]
    launcher: int | None  # gets TERM first; None: only orphans are left
    port: int | None
    grace_s: float


@dataclass(frozen=True)
class KillResult:
    killed: tuple[Victim, ...]
    leftovers: tuple[str, ...]  # what should be gone and is not: processes, the port, GPU memory
    notes: tuple[str, ...]  # what remains without harm to a next start: files in /dev/shm, zombies
    graceful: bool  # everything ended without KILL
    seconds: float


class Killer:
    """One kill of one run. Blocking; for a thread. Nothing is signalled before :meth:`run`.

    ``processes`` are the run's as last sampled: they name ranks without a title, and remain known to be of the run
    when their launcher has gone.
    """

    def __init__(
        self,
        run: Run,
        processes: Sequence[Process] = (),
        grace_s: float = GRACE_S,
        held: Sequence[Held] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        snapshot: Callable[[], Snapshot] = lambda: Snapshot(proc.table()),
    ) -> None:
        self._port = run.port
        self._grace_s = grace_s
        self._held = held
        self._clock = clock
        self._sleep = sleep
        self._snapshot = snapshot
        self._identity = Identity(run.pid, run.start_time, run.launched, run.log)
        self._known = {(process.pid, process.start_time) for process in processes}
        self._names = {process.pid: process for process in processes}
        self._handles: dict[int, Handle] = {}
        self._victims: dict[int, Victim] = {}  # everything that lived when it was seen first
        self._killed: set[int] = set()  # was sent KILL
        self._launcher: int | None = None

    def plan(self) -> KillPlan:
        self._look()
        try:
            return KillPlan(tuple(self._alive()), self._launcher, self._port, self._grace_s)
        finally:
            self._close()

    def run(self, report: Report, force: bool = False) -> KillResult:
        """Ends the run and says what is left. ``force``: without TERM and grace."""
        began = self._clock()
        self._look()
        shm = shm_in_use(self._handles)
        port = PortWatch(self._port, tuple(self._handles))
        try:
            if not self._alive():
                report("look", "done", "no process of this run is left")
            elif force:
                report("TERM launcher", "done", "left out, as asked")
            else:
                self._ask_launcher(report)
            shm |= shm_in_use(victim.pid for victim in self._alive())
            self._kill_in_order(report)
            self._sweep(report)
            leftovers = (*self._processes_left(), *self._still_held(report, port))
            notes = tuple(self._notes(port, shm_left(shm, self._victims)))
            killed = tuple(victim for pid, victim in self._victims.items() if self._handles[pid].is_gone())
            seconds = self._clock() - began
            ended = f"{_count(len(killed))} ended in {seconds:.1f} s"
            report("done", "failed" if leftovers else "done", "; ".join((ended, *leftovers, *notes)))
            return KillResult(killed, leftovers, notes, not self._killed, seconds)
        finally:
            self._close()

    # ---------------------------------------------------------------------------------------------------------- looking

    def _look(self) -> None:
        """Finds the run's processes and takes hold of those that are new."""
        snapshot = self._snapshot()
        pids = members(self._identity, self._known, snapshot)
        self._identity = learn(self._identity, pids, snapshot)
        for pid in pids:
            row = snapshot.rows[pid]
            self._known.add((pid, row.start_time))
            held = self._handles.get(pid)
            if row.dead or (held is not None and snapshot.is_same(pid, held.start_time)):
                continue
            handle = Handle.open(pid, row.start_time)
            if handle is None:
                continue
            if held is not None:
                held.close()  # of a process that has ended and whose pid another of the run has now
            self._handles[pid] = handle
            self._victims[pid] = self._victim(pid, row, snapshot)
        self._launcher = self._find_launcher(snapshot)

    def _victim(self, pid: int, row: proc.Stat, snapshot: Snapshot) -> Victim:
        title = snapshot.title(pid)
        known = self._names.get(pid)
        if known is not None and not snapshot.is_same(pid, known.start_time):
            known = None
        role = title.role if title else known.role if known else titles.HELPER
        rank = (title.rank if title else None) or (known.rank if known else None)
        if title is not None and title.role == titles.SPAWNING and known is not None:
            role = known.role  # its place among its siblings has named it
        return Victim(pid, row.start_time, role, rank, title.text if title else describe(pid), row.state)

    def _find_launcher(self, snapshot: Snapshot) -> int | None:
        """The process that gets TERM: the server's own, below a wrapper script if there is one."""
        alive = self._alive()
        for victim in alive:
            if victim.role == titles.LAUNCHER:
                return victim.pid
        pids = {victim.pid for victim in alive}
        for victim in alive:
            row = snapshot.rows.get(victim.pid)
            if victim.role in _ORDER and row is not None and row.ppid in pids:
                return row.ppid  # a script of its own that started an engine
        own = self._identity.pid
        return next((victim.pid for victim in alive if victim.pid == own and victim.role not in _ORDER), None)

    def _alive(self) -> list[Victim]:
        return [victim for pid, victim in self._victims.items() if not self._handles[pid].is_gone()]

    # ----------------------------------------------------------------------------------------------------------- ending

    def _ask_launcher(self, report: Report) -> None:
        """TERM to the launcher, then wait: for everything to end, or for a launcher that left its children behind."""
        step = "TERM launcher"
        if self._launcher is None:
            report(step, "done", "there is no launcher any more, only what it left behind")
            return
        handle = self._handles[self._launcher]
        row = proc.stat(handle.pid)
        if row is not None and row.state in "tT":
            report(step, "done", f"left out: process {handle.pid} is stopped and would not notice")
            return
        report(step, "doing", f"process {handle.pid}")  # told first: whoever sees it die knows that it was asked to
        if not handle.send(signal.SIGTERM):
            report(step, "failed", f"process {handle.pid}: {'not permitted' if handle.refused else 'gone'}")
            return
        report(step, "done", f"process {handle.pid}")
        report("wait", "doing", f"up to {self._grace_s:.0f} s for the server to end by itself")
        deadline = self._clock() + self._grace_s
        while self._clock() < deadline and self._alive():
            if handle.is_gone():
                deadline = min(deadline, self._clock() + ORPHANS_S)
            self._sleep(_LOOK_S)
            self._look()
        left = self._alive()
        report("wait", "done", f"{len(left)} of {len(self._victims)} processes are left" if left else "all have ended")

    def _kill_in_order(self, report: Report) -> None:
        alive = self._alive()
        ranks = sorted((victim for victim in alive if victim.role in _ORDER), key=lambda one: _ORDER.index(one.role))
        launchers = [victim for victim in alive if victim.role == titles.LAUNCHER or victim.pid == self._launcher]
        chosen = {victim.pid for victim in (*ranks, *launchers)}
        others = [victim for victim in alive if victim.pid not in chosen and not _is_tracker(victim)]
        self._kill("KILL ranks", [victim for victim in ranks if victim.pid != self._launcher], report)
        self._kill("KILL launcher", launchers, report)
        self._kill("KILL others", others, report)
        deadline = self._clock() + TRACKER_S
        while self._clock() < deadline and any(map(_is_tracker, self._alive())):
            self._sleep(_LOOK_S)

    def _kill(self, step: str, victims: Sequence[Victim], report: Report) -> None:
        victims = [victim for victim in victims if not self._handles[victim.pid].refused]
        if not victims:
            return
        for victim in victims:
            if self._handles[victim.pid].send(signal.SIGKILL):
                self._killed.add(victim.pid)
        refused = [victim for victim in victims if self._handles[victim.pid].refused]
        names = ", ".join(f"{victim.rank or victim.role} {victim.pid}" for victim in victims)
        if refused:
            report(step, "failed", f"{names}: {len(refused)} not permitted")
        else:
            report(step, "done", names)

    def _sweep(self, report: Report) -> None:
        """Kills what is left and what appears, until nothing was there for a while."""
        begin = quiet_since = self._clock()
        report("sweep", "doing", "looking for what is left or still appears")
        while True:
            self._sleep(_LOOK_S)
            self._look()
            alive = [victim for victim in self._alive() if not self._handles[victim.pid].refused]
            self._kill("KILL leftovers", [victim for victim in alive if victim.pid not in self._killed], report)
            now = self._clock()
            if alive:
                quiet_since = now
            if now - quiet_since >= QUIET_S or now - begin >= SWEEP_S:
                break
        report("sweep", "failed" if self._alive() else "done", f"{_count(len(self._alive()))} left")

    # ----------------------------------------------------------------------------------------------------- what is left

    def _processes_left(self) -> list[str]:
        out = []
        for victim in self._alive():
            row = proc.stat(victim.pid)
            why = "does not end"
            if self._handles[victim.pid].refused:
                why = f"belongs to {_user(victim.pid)}, whose processes this user may not end"
            elif row is not None and row.state == "D":
                place = proc.wchan(victim.pid) or "the kernel"
                why = f"is in an uninterruptible wait (D) in {place}, and ends when that does"
            out.append(f"process {victim.pid} ({victim.rank or victim.title}) {why}")
        return out

    def _still_held(self, report: Report, port: PortWatch) -> list[str]:
        """Waits for the port and the like to come back; what does not is returned."""
        checks: list[Held] = [port.held, *self._held]
        deadline = self._clock() + HELD_S
        report("release", "doing", "port free, memory back?")
        while True:
            held = [text for text in (check() for check in checks) if text is not None]
            if not held or self._clock() >= deadline:
                report("release", "failed" if held else "done", "; ".join(held) or "nothing is held")
                return held
            self._sleep(_LOOK_S)

    def _notes(self, port: PortWatch, files: str | None) -> Iterator[str]:
        if files is not None:
            yield f"left behind, as SGLang does also when it ends by itself: {files}"
        if port.foreign:
            yield f"port {port.port} was another server's all along"
        yield from self._zombies()

    def _zombies(self) -> list[str]:
        """Members that have ended and that their parent has not waited for. They hold nothing but a pid."""
        by_parent: dict[int, list[int]] = {}
        for pid, handle in self._handles.items():
            row = proc.stat(pid)
            if row is not None and row.dead and proc.same_process(pid, handle.start_time) and row.ppid != os.getpid():
                by_parent.setdefault(row.ppid, []).append(pid)
        return [
            f"ended, but process {parent} ({describe(parent, 60)}) does not wait for {' '.join(map(str, sorted(pids)))}"
            for parent, pids in sorted(by_parent.items())
        ]

    def _close(self) -> None:
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()
        self._victims.clear()


def _count(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _is_tracker(victim: Victim) -> bool:
    return victim.title == "resource_tracker"


def _user(pid: int) -> str:
    try:
        return pwd.getpwuid(os.stat(f"{proc.PROC}/{pid}").st_uid).pw_name
    except (OSError, KeyError):
        return "another user"
