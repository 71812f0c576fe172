"""The processes of a run, each second: which there are, what each is, and what it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from launchmon_agent.events import Exit, Gpus, Process, Processes
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.gpumap import Numbering, RankGpu, RankPlace, map_ranks
from launchmon_agent.sensors.members import Member, Members
from launchmon_agent.sensors.proc import TICKS, Memory
from launchmon_agent.sensors.roster import Roster
from launchmon_agent.sensors.syscalls import syscall_name
from launchmon_agent.sensors.usage import Rate, TreeCpu
from launchmon_agent.sglang import titles
from launchmon_agent.sglang.titles import Name

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h: the same on every machine."""

_OWN_CHILD = "python"
"""Kind of a multiprocessing child that a rank has for itself."""


class ProcessSensor:
    """Observes the processes of one run. All calls from one thread."""

    def __init__(self, launcher_pid: int, launcher_start: float | None, *, session: int | None = None) -> None:
        """``session``: of a launched run, whose orphans stay in it. For others None: a shell's holds much else."""
        self._members = Members(launcher_pid, launcher_start, session)
        self._roster = Roster(self._members)
        self._gauges: dict[Member, _Gauges] = {}
        self._numbering: Numbering | None = None
        self._sampled_at: float | None = None
        self._host_pids = proc.namespace("self", "pid") == _INITIAL_PID_NAMESPACE

    def expect(self, ranks: Sequence[str]) -> None:
        """The ranks of this node in start order, once the server's arguments are known: names ranks without a title."""
        self._roster.expect(ranks)

    def sample(self, now: float, gpus: Gpus | None) -> Processes:
        """Those alive now, launcher first, then ranks in order, then the rest. Zombies are gone."""
        self._sampled_at = now
        self._roster.update(now)
        listed = self._roster.listed()
        self._gauges = {member: self._gauges.get(member) or _Gauges() for member in listed}
        below = self._roster.below()
        memories = {member: member.files.memory() for member in listed}
        on_gpus = self._on_gpus(listed, memories, gpus)
        found = (
            self._gauges[member].read(
                member, name, memories[member], below.get(member, []), on_gpus.get(member.pid), now
            )
            for member, name in listed.items()
        )
        return Processes(at=now, processes=tuple(found))

    def vanished(self, now: float) -> list[Exit]:
        """Processes of the run that have ended since the last call, helpers aside. A zombie has ended.

        At the time of the last sample it is what that has found, else they are looked at again.
        ``code`` is known of a zombie whose ``stat`` the kernel lets us read whole (our user's; any, as root), otherwise
        None: its parent knows more.
        """
        if now != self._sampled_at:
            self._roster.check()
        ended, self._roster.ended = self._roster.ended, []
        return [
            Exit(now, member.pid, member.stat.start_time, member.name.role, member.name.rank, member.stat.exit_code)
            for member in ended
            if member.name is not None and member.name.role != titles.HELPER
        ]

    def _on_gpus(
        self, listed: Mapping[Member, Name], memories: Mapping[Member, Memory | None], gpus: Gpus | None
    ) -> dict[int, RankGpu]:
        launcher = self._members.launcher
        if self._numbering is None and launcher is not None:
            self._numbering = Numbering.of(launcher.argv, proc.environ(launcher.pid))
        if gpus is None or not gpus.gpus:
            return {}
        ranks = [
            RankPlace(member.pid, self._roster.place(name.rank), memory.nspid if (memory := memories[member]) else ())
            for member, name in listed.items()
            if name.rank is not None
        ]
        return map_ranks(ranks, gpus.gpus, self._numbering or Numbering(), host_pids=self._host_pids)


class _Gauges:
    """The counters of one process that become rates."""

    def __init__(self) -> None:
        self._cpu, self._tree, self._read, self._write = Rate(), Rate(), Rate(), Rate()
        self._tree_cpu = TreeCpu()

    def read(
        self,
        member: Member,
        name: Name,
        memory: Memory | None,
        below: Sequence[Member],
        gpu: RankGpu | None,
        now: float,
    ) -> Process:
        """Context switches are the main thread's: counting all threads' costs a file for each."""
        stat = member.stat
        own = self._cpu.per_second((stat.utime + stat.stime) / TICKS, now)
        tree = self._tree.per_second(self._tree_cpu.advance(_tree_ticks(member, below)), now)
        read, written = member.files.io_bytes() or (None, None)
        return Process(
            pid=member.pid,
            start_time=stat.start_time,
            role=name.role,
            ppid=stat.ppid,
            rank=name.rank,
            named_by=name.named_by,
            title=member.title.text if member.title and member.title.role != titles.SPAWNING else None,
            state=stat.state,
            cpu_percent=None if own is None else own * 100,
            tree_cpu_percent=None if tree is None else tree * 100,
            threads=stat.threads,
            rss_anon=memory.anon if memory else None,
            rss_file=memory.file if memory else None,
            rss_shmem=memory.shmem if memory else None,
            read_bps=self._read.per_second(read, now),
            write_bps=self._write.per_second(written, now),
            major_faults=stat.major_faults,
            context_switches=memory.context_switches if memory else None,
            blocked_in=_blocked_in(member),
            children=dict(Counter(kind for kind in map(_kind, below) if kind)) if below else {},
            gpu=gpu.index if gpu else None,
            gpu_memory=gpu.memory if gpu else None,
            gpu_mapped_by=gpu.by if gpu else None,
        )


def _tree_ticks(member: Member, below: Sequence[Member]) -> int:
    """CPU time of a process and its children, those waited for included.

    Not included for the launcher and the DP controller: theirs are ranks, which are listed by themselves.
    """
    stat = member.stat
    ticks = stat.utime + stat.stime
    if member.name is not None and member.name.role not in (titles.LAUNCHER, titles.DP_CONTROLLER):
        ticks += stat.cutime + stat.cstime
    for child in below:
        ticks += child.stat.utime + child.stat.stime + child.stat.cutime + child.stat.cstime
    return ticks


def _blocked_in(member: Member) -> str | None:
    if member.stat.state == "R":
        return None
    return member.files.wchan() or syscall_name(member.files.syscall())


def _kind(child: Member) -> str | None:
    if child.title is not None and child.title.role == titles.SPAWNING:
        return _OWN_CHILD
    return child.kind
