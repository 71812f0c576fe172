"""Takes the stacks of all ranks and of what started them, at about one moment, and leaves every process as it was.

For each process: py-spy in the way that its state allows; where the kernel refuses that, the launch hook; below that,
what ``/proc`` tells. What was measured on real servers decides about the way:

* py-spy fails at random on a busy rank (one time in ten plain, six in ten ``--nonblocking``): up to :data:`TRIES`.
* on a stopped process plain py-spy always fails, and ``--nonblocking`` works.
* plain py-spy pauses the process for 25 ms and more, ``--nonblocking`` for less than two: one that sleeps is read so.
* a py-spy that is ended in its work may leave the process stopped: looked for after each, and undone.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from launchmon_agent.errors import Refused
from launchmon_agent.events import Process, RankStack, Run, Stacks
from launchmon_agent.runs.handle import Handle
from launchmon_agent.sensors import proc
from launchmon_agent.stacks import hooked, interpreter, permission, pyspy, tasks
from launchmon_agent.stacks.model import DP_CONTROLLER, LAUNCHER, SCHEDULER, FrameTable, ReadThread

LIMIT_S = 5.0
"""For one process, whatever is tried on it."""

TRIES = 3
_SETTLE_S = 0.05
_ASLEEP_S = 0.005
_AT_ONCE = min(32, max(2, len(os.sched_getaffinity(0))))
"""Readers at work. More than there are cores would only lengthen the pause of each process."""

_ROLES = (LAUNCHER, DP_CONTROLLER, SCHEDULER, "spawning")
_numbers = itertools.count(1)

NO_PYSPY = "no py-spy was found beside launchmon's Python, beside the server's, or on PATH, and none was sent"
GET_PYSPY = "pip install py-spy    # in the environment of the server"


@dataclass(frozen=True)
class _Read:
    """What one process gave: threads and how, or why not."""

    threads: list[ReadThread]
    means: str | None
    python: str | None = None
    problem: str | None = None
    cure: str | None = None


class Dumper:
    """Dumps one run as it is now. Blocking: to be called from a thread."""

    def __init__(
        self,
        run: Run,
        processes: Sequence[Process],
        *,
        hook: str | None = None,
        program: str | None = None,
        limit_s: float = LIMIT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``processes``: all of the run, as the process sensor names them. ``hook``: :func:`stacks.plant.home_of` the
        run's directory, for a run that launchmon launched. ``program``: the py-spy to use; found if not given."""
        self._run = run
        self._processes = [process for process in processes if process.role in _ROLES]
        self._hook = hook
        self._program = program
        self._limit_s = limit_s
        self._clock = clock

    def dump(self, native: bool = False, locals_of: str | None = None, automatic: bool = False) -> Stacks:
        """``locals_of``: the rank (or role) of which local variables are wanted too. Never raises for a process."""
        at, began = self._clock(), time.monotonic()
        programs = self._programs()
        table = FrameTable()

        def read(process: Process) -> tuple[RankStack, list[ReadThread]]:
            wants_locals = locals_of is not None and locals_of in (process.rank, process.role)
            reader = _Reader(process, programs, self._hook, self._limit_s)
            return reader.read(pyspy.Options(native=native, locals=wants_locals))

        if not self._processes:
            return Stacks(at, id=_id(at), automatic=automatic, native=native, seconds=0.0)
        with ThreadPoolExecutor(min(_AT_ONCE, len(self._processes)), "launchmon-stacks") as pool:
            found = list(pool.map(read, self._processes))
        node = self._run.node_rank if self._run.nnodes > 1 else None
        stacks = tuple(replace(stack, node=node, threads=tuple(map(table.thread, threads))) for stack, threads in found)
        return Stacks(
            at,
            id=_id(at),
            automatic=automatic,
            native=native,
            seconds=time.monotonic() - began,
            frames=table.frames,
            stacks=stacks,
        )

    def _programs(self) -> list[str]:
        if self._program is not None:
            return [self._program]
        return list(pyspy.find([process.pid for process in self._processes[:2]]))


def _id(at: float) -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(at))}-{next(_numbers)}"


class _Reader:
    """One process, read once."""

    def __init__(self, process: Process, programs: Sequence[str], hook: str | None, limit_s: float) -> None:
        self._process = process
        self._pid = process.pid
        self._programs = programs
        self._hook = hook
        self._limit_s = limit_s
        self._deadline = time.monotonic() + limit_s

    def read(self, options: pyspy.Options) -> tuple[RankStack, list[ReadThread]]:
        began = time.monotonic()
        before = self._stat()
        if before is None:
            return self._stack(began, _Read([], None, problem="the process ended before it could be read")), []
        if before.dead:
            problem = "a zombie: it has ended, and its parent has not asked for its exit status yet"
            return self._stack(began, _Read([], None, problem=problem), before.state, before.state), []
        stopped_before = _is_stopped(self._pid)
        found = self._choose(before.state, options)
        continued = not stopped_before and self._continue(found)
        after = self._stat()
        if after is None or after.dead:
            found = replace(found, problem="the process ended while it was read", cure=None)
        elif continued:
            found = replace(found, problem=_join("it was found stopped afterwards and was continued", found.problem))
        state_after = None if after is None else after.state
        return self._stack(began, found, before.state, state_after, continued), found.threads

    def _stack(
        self,
        began: float,
        found: _Read,
        before: str | None = None,
        after: str | None = None,
        continued: bool = False,
    ) -> RankStack:
        return RankStack(
            pid=self._pid,
            start_time=self._process.start_time,
            role=self._process.role,
            rank=self._process.rank,
            python=found.python,
            means=found.means,
            state_before=before,
            state_after=after,
            seconds=time.monotonic() - began,
            problem=found.problem,
            cure=found.cure,
            continued=continued,
        )

    def _stat(self) -> proc.Stat | None:
        """None when the process of this start time is gone."""
        found = proc.stat(self._pid)
        if found is None or abs(found.start_time - self._process.start_time) > proc.SAME_S:
            return None
        return found

    # ----------------------------------------------------------------------------------------------------------- means

    def _choose(self, state: str, options: pyspy.Options) -> _Read:
        refused = permission.check(self._pid)
        if refused is not None:
            return self._without_ptrace(refused)
        if not self._programs:
            return self._without_ptrace(Refused(NO_PYSPY, "", GET_PYSPY))
        try:
            return self._with_pyspy(state, options)
        except pyspy.Failed as failed:
            if not failed.refused:
                return self._without_ptrace(Refused(str(failed)))
            facts = permission.facts(self._pid)
            why = None if facts is None else permission.cause(facts, read_refused=True)
            return self._without_ptrace(why or Refused(str(failed)))

    def _with_pyspy(self, state: str, options: pyspy.Options) -> _Read:
        """Raises :class:`pyspy.Failed` with the last failure."""
        still = state in "TtD"  # stopped, traced by another, or asleep where no signal reaches it: cannot be paused
        note = "native frames need a process that can be paused" if still and options.native else None
        unpaused = replace(options, nonblocking=True)
        attempts = [unpaused] * TRIES if still else [options] * TRIES
        if not still and not options.native and self._is_asleep():
            attempts.insert(0, unpaused)
        programs = list(self._programs)
        while True:
            attempt = attempts.pop(0)
            switches = self._switches()
            try:
                threads = pyspy.dump(programs[0], self._pid, attempt, max(0.1, self._deadline - time.monotonic()))
            except pyspy.Failed as failed:
                if failed.unusable and len(programs) > 1:
                    programs.pop(0)
                    attempts.insert(0, attempt)
                    continue
                gone = self._stat() is None
                late = time.monotonic() >= self._deadline
                if gone or late or failed.unusable or failed.refused or not (failed.retry and attempts):
                    raise
                if _is_stopped(self._pid):
                    attempts = [replace(each, nonblocking=True) for each in attempts]
                continue
            if attempt.nonblocking and not still and attempts and self._switches() != switches:
                continue  # it ran meanwhile, so what was read may never have been
            means = "py-spy --nonblocking" if attempt.nonblocking else "py-spy"
            return _Read(threads, means, interpreter.version(self._pid), problem=note)

    def _is_asleep(self) -> bool:
        """Then it need not be paused: what is read does not change meanwhile."""
        switches = self._switches()
        time.sleep(_ASLEEP_S)
        return self._switches() == switches and "R" not in tasks.states(self._pid)

    def _switches(self) -> int | None:
        """How often its main thread has gone to sleep or lost the CPU so far."""
        found = proc.memory(self._pid)
        return None if found is None else found.context_switches

    def _without_ptrace(self, refused: Refused) -> _Read:
        """The launch hook, else what /proc tells; with the reason why there is no more."""
        problem = f"{refused.what}: {refused.cause}" if refused.cause else refused.what
        if self._hook is not None and self._stat() is not None:
            seconds = max(0.5, self._deadline - time.monotonic())
            try:
                answer = hooked.dump(self._pid, self._process.start_time, self._hook, seconds)
            except hooked.Unhooked as unhooked:
                problem = f"{problem}; {unhooked}"
            else:
                return _Read(answer.threads, "faulthandler", answer.python)
        threads = tasks.read(self._pid)
        means = "proc" if threads else None
        return _Read(threads, means, interpreter.version(self._pid), problem, refused.try_ or None)

    # --------------------------------------------------------------------------------------------------------- restore

    def _continue(self, found: _Read) -> bool:
        """Continues the process where it is stopped now. True: it was, and has been continued.

        A stop that a killed tracer leaves behind may take effect a moment later, so after a failure this looks
        three times.
        """
        looks = 1 if found.means in ("py-spy", "py-spy --nonblocking", "faulthandler") else 3
        for look in range(looks):
            if look:
                time.sleep(_SETTLE_S)
            # Not t: that is somebody else's debugger, which has come meanwhile.
            if "T" in tasks.states(self._pid) or tasks.stop_pending(self._pid):
                handle = Handle.open(self._pid, self._process.start_time)
                if handle is None:
                    return False
                try:
                    return handle.send(signal.SIGCONT)
                finally:
                    handle.close()
        return False


def _is_stopped(pid: int) -> bool:
    return any(state in "Tt" for state in tasks.states(pid))


def _join(first: str, second: str | None) -> str:
    return first if second is None else f"{first}; {second}"
