"""One moment of a run as the rules see it: who is alive and where, what moves, and for how long nothing has. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from launchmon_agent.events import LAUNCHER, Evidence, Host, Process, RuledOut
from launchmon_agent.judge import words
from launchmon_agent.judge.gauges import FRESH_S, Gauge
from launchmon_agent.judge.stackview import StackView
from launchmon_agent.judge.tracks import GpuTrack, ProcessTrack
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.rail import RAIL

STALL_S = 10.0
"""Silence in every moving thing after which a stall has begun: a look at the stacks is worth its cost."""

SERVER_PHASES = ("http", "warm-up")
"""The ranks are up and turn in their event loops, which burns CPU: it says nothing there."""

HOST_COUNTS = ("start", "spawn", "weights", "draft")
"""Phases in which traffic of the whole machine may be the run's own, by ways that no process counter shows."""

WAITS_FOR_RANKS = ("wait-for-ready", "wait-for-ready-pipe", "dp-controller-starts")
"""Explanations of the launcher's stack (stacks/frames.table)."""

RECENT_S = 60.0
"""Age up to which a dump names what a process does."""

AUTOMATIC_SLACK_S = 1.0


@dataclass(frozen=True)
class Mover:
    """One thing that moves while a launch gets on."""

    what: str  # log | cpu | read | write | faults | memory | gpu-memory | gpu | disk-sleep | compiler | host-disk | …
    who: str  # a rank, "GPU 3", "log", "host"
    quiet_s: float | None  # since it last moved, at least; None: missing
    value: str  # as it is now
    seen: bool = True  # it was seen to move at all: who has just begun to watch has seen nothing yet

    @property
    def moves(self) -> bool:
        return self.seen and self.quiet_s is not None and self.quiet_s < STALL_S


class Scene:
    """Everything is worked out once, on demand."""

    def __init__(self, model: RunModel, window: EvidenceWindow, now: float) -> None:
        self.model = model
        self.window = window
        self.now = now

    # ------------------------------------------------------------------------------------------------------------- who

    @cached_property
    def phase(self) -> str:
        return self.model.phases.run_phase()

    @cached_property
    def rows(self) -> list[Process]:
        """Schedulers in order; one that is expected and has no process has pid 0."""
        return self.model.rank_rows()

    @cached_property
    def alive(self) -> tuple[str, ...]:
        return tuple(row.rank for row in self.rows if row.pid and row.rank is not None)

    @cached_property
    def outstanding(self) -> tuple[str, ...]:
        """Living ranks whose part of the launch is not over; all of them once the server itself is the last to come."""
        behind = tuple(rank for rank in self.alive if not self.model.phases.is_up(rank))
        return behind or self.alive

    @property
    def all_up(self) -> bool:
        up = bool(self.alive) and all(self.model.phases.is_up(rank) for rank in self.alive)
        return up and not self.launcher_waits

    @cached_property
    def launcher_waits(self) -> bool:
        """The log has told that the ranks are up, and the launcher's stack says that it still waits for one of them."""
        dumps = [dump for dump in self.window.dumps if self.now - dump.at <= RECENT_S]
        if self.phase != "http" or not dumps:
            return False
        seen = self.window.viewed((dumps[-1],), frozenset(self.alive))
        said = None if seen is None or seen.launcher is None else seen.launcher.explanation
        return said is not None and said.id in WAITS_FOR_RANKS

    @cached_property
    def tracks(self) -> dict[str, ProcessTrack]:
        """Of the outstanding ranks."""
        return {rank: self.window.ranks[rank] for rank in self.outstanding if rank in self.window.ranks}

    @cached_property
    def launcher(self) -> ProcessTrack | None:
        return self.window.others.get(LAUNCHER)

    @cached_property
    def gpus(self) -> dict[int, GpuTrack]:
        """Of the outstanding ranks; all of the machine's where nobody knows whose is whose."""
        mapped = {track.process.gpu for track in self.tracks.values() if track.process.gpu is not None}
        return {index: gpu for index, gpu in self.window.gpus.items() if not mapped or index in mapped}

    @property
    def host(self) -> Host | None:
        return self.model.host

    @property
    def nnodes(self) -> int:
        return 1 if self.model.run is None else self.model.run.nnodes

    def place_of(self, rank: str) -> int:
        """How far a rank is, by its phase; -1 where it has none."""
        span = self.model.phases.current(rank)
        if self.model.phases.is_up(rank):
            return len(RAIL)
        return -1 if span is None else RAIL.index(span.rail_phase)

    # ------------------------------------------------------------------------------------------------------ what moves

    @cached_property
    def movers(self) -> tuple[Mover, ...]:
        return tuple(self._movers())

    def _movers(self) -> Iterator[Mover]:
        yield Mover("log", "log", self.log_quiet_s, "" if self.log_quiet_s is None else f"last line {self._ago()}")
        for rank, track in self.tracks.items():
            yield from self._of_rank(rank, track)
        if self.launcher is not None and self.phase in ("start", "spawn", *SERVER_PHASES):
            yield from self._of_rank(LAUNCHER, self.launcher)
        for index, gpu in sorted(self.gpus.items()):
            name = f"GPU {index}"
            yield self._gauge("gpu-memory", name, gpu.memory, words.size)
            worked = gpu.worked_at is not None or gpu.spin_since is not None
            yield Mover("gpu", name, gpu.work_quiet_s(self.now, FRESH_S), _gpu_words(gpu), worked)
        if self.phase in HOST_COUNTS:
            yield self._gauge("host-disk", "host", self.window.disk, words.rate)
            yield self._gauge("host-net", "host", self.window.net, words.rate)
        if self.collectives_quiet_s is not None:
            yield Mover("collectives", "NCCL", self.collectives_quiet_s, "launch counts", self._collectives_moved)

    def _ago(self) -> str:
        return f"{words.span(self.log_quiet_s or 0.0)} ago"

    def _of_rank(self, rank: str, track: ProcessTrack) -> Iterator[Mover]:
        starts = self.phase not in SERVER_PHASES or self.launcher_waits
        if starts or (self.batch_seen and rank != LAUNCHER):
            seen = track.cpu.moved_at is not None
            yield Mover("cpu", rank, self._cpu_quiet_s(track), _percent(track.cpu.value), seen)
        else:
            yield self._gauge("cpu", rank, track.below_cpu, _percent)
        yield self._gauge("read", rank, track.read, words.rate)
        yield self._gauge("write", rank, track.write, words.rate)
        yield self._gauge("faults", rank, track.faults, lambda value: f"{value:.0f}/s")
        yield self._gauge("memory", rank, track.rss, words.size)
        if track.disk_sleep_at is not None:
            yield Mover("disk-sleep", rank, self.now - track.disk_sleep_at, "waits for its disk")
        if track.compiled_at is not None:
            yield Mover("compiler", rank, self.now - track.compiled_at, compilers_words(track.compilers))

    def _gauge(self, what: str, who: str, gauge: Gauge, say: object) -> Mover:
        assert callable(say)
        quiet = gauge.quiet_s(self.now)
        value = "" if quiet is None or gauge.value is None else str(say(gauge.value))
        return Mover(what, who, quiet, value, gauge.moved_at is not None)

    def _cpu_quiet_s(self, track: ProcessTrack) -> float | None:
        """A rank that waits in NCCL spins with its GPU: its CPU time is no move then."""
        quiet = track.cpu.quiet_s(self.now)
        gpu = None if track.process.gpu is None else self.window.gpus.get(track.process.gpu)
        if quiet is None or gpu is None or gpu.spin_since is None:
            return quiet
        return max(quiet, self.now - gpu.spin_since)

    @cached_property
    def log_quiet_s(self) -> float | None:
        log = self.model.log
        if log is None or log.error is not None or log.grown_at is None:
            return None
        spoken = log.grown_at if self.window.spoken_at is None else self.window.spoken_at
        return max(0.0, self.now - spoken)

    @property
    def batch_seen(self) -> bool:
        """A request has reached the ranks."""
        return self.window.batch_at is not None

    @cached_property
    def collectives_quiet_s(self) -> float | None:
        """Since the launch counts of NCCL last changed between two answers. None: no two answers."""
        answers = [ras for ras in self.window.ras if ras.error is None and ras.communicators]
        if len(answers) < 2:
            return None
        moved = answers[0].at
        for before, after in itertools.pairwise(answers):
            if before.communicators != after.communicators:
                moved = after.at
        return max(0.0, self.now - moved)

    @property
    def _collectives_moved(self) -> bool:
        answers = [ras for ras in self.window.ras if ras.error is None and ras.communicators]
        return any(before.communicators != after.communicators for before, after in itertools.pairwise(answers))

    # ---------------------------------------------------------------------------------------------------- what is quiet

    @cached_property
    def quiet_s(self) -> float:
        """For how long nothing at all has moved, as far as is known."""
        known = [mover.quiet_s for mover in self.movers if mover.quiet_s is not None]
        return min(known, default=0.0)

    @cached_property
    def enough_known(self) -> bool:
        """Whether silence can be concluded at all: the log, the CPU of every rank, and one more thing of each."""
        if self.log_quiet_s is None or not self.tracks or len(self.tracks) < len(self.outstanding):
            return False
        gpu_known = any(gpu.memory.known(self.now) for gpu in self.gpus.values())
        return all(
            track.cpu.known(self.now)
            and (gpu_known or any(gauge.known(self.now) for gauge in (track.read, track.faults, track.rss)))
            for track in self.tracks.values()
        )

    def moving(self, *kinds: str) -> list[Mover]:
        """Those of these kinds that have moved within :data:`STALL_S`, the newest move first."""
        found = [mover for mover in self.movers if mover.what in kinds and mover.moves]
        return sorted(found, key=lambda mover: mover.quiet_s or 0.0)

    def who_moves(self, *kinds: str) -> tuple[str, ...]:
        """The ranks among them, in order."""
        found = {mover.who for mover in self.moving(*kinds)}
        return tuple(rank for rank in self.outstanding if rank in found)

    @cached_property
    def spinning(self) -> tuple[int, ...]:
        """GPUs that are busy at idle power, for as long as they were watched in a row."""
        return tuple(
            index
            for index, gpu in sorted(self.gpus.items())
            if gpu.spin_since is not None and self.now - gpu.spin_since >= STALL_S
        )

    # ----------------------------------------------------------------------------------------------------------- stacks

    @cached_property
    def stacks(self) -> StackView | None:
        """The dumps of the present silence."""
        since = self.now - self.quiet_s - AUTOMATIC_SLACK_S
        dumps = [dump for dump in self.window.dumps if dump.at >= since]
        return self.window.viewed(tuple(dumps), frozenset(self.outstanding))

    @cached_property
    def recent_stacks(self) -> StackView | None:
        """The newest dump, within a minute, whatever moves: it names what a busy rank does."""
        dumps = [dump for dump in self.window.dumps if self.now - dump.at <= RECENT_S]
        return self.stacks or self.window.viewed(tuple(dumps[-1:]), frozenset(self.outstanding))

    # ------------------------------------------------------------------------------------------------------ as evidence

    def ranks_evidence(self) -> Evidence:
        return Evidence("ranks alive", f"{len(self.alive)} of {len(self.rows)}")

    def silences(self) -> list[Evidence]:
        """The numbers behind "nothing moves", one line for each kind of thing."""
        out = [self.ranks_evidence()]
        for what, title in _TITLES.items():
            movers = [mover for mover in self.movers if mover.what == what and mover.quiet_s is not None]
            if not movers:
                continue
            quiet = min(mover.quiet_s for mover in movers if mover.quiet_s is not None)
            values = sorted({mover.value for mover in movers if mover.value})
            told = values[0] if len(values) == 1 else f"{values[0]} … {values[-1]}" if values else ""
            still = f"unchanged for {words.span(quiet)}" if what in _LEVELS else f"quiet for {words.span(quiet)}"
            out.append(Evidence(title, f"{told}, {still}" if told else still))
        return out

    def missing(self) -> tuple[str, ...]:
        """Kinds of evidence that there is none of, as sentences for ``unknown``."""
        out = []
        if self.log_quiet_s is None:
            out.append("the log: it cannot be read")
        if self.tracks and not any(track.read.known(self.now) for track in self.tracks.values()):
            out.append("bytes read by the ranks: /proc/PID/io is not readable for this user")
        if not self.gpus:
            reason = self.model.gpus.error if self.model.gpus is not None else None
            out.append(f"the GPUs: {reason}" if reason else "the GPUs: no values of them")
        return tuple(out)

    def ruled_out(self, *kinds: str) -> tuple[RuledOut, ...]:
        """Why it is none of these, on which numbers."""
        reasons = {
            "crashed": f"{len(self.alive)} of {len(self.rows)} ranks alive, no error in the log",
            "compiling": "0 compilers",
            "reading": self._bytes_words(),
            "memory": self._memory_words(),
        }
        return tuple(RuledOut(kind, reason) for kind in kinds if (reason := reasons.get(kind)))

    def _bytes_words(self) -> str:
        rates = [track.read.value for track in self.tracks.values() if track.read.known(self.now)]
        known = [value for value in rates if value is not None]
        return f"{words.rate(sum(known))} read by all ranks" if known else ""

    def _memory_words(self) -> str:
        host = self.model.host
        parts = []
        if host is not None and host.memory_total and host.memory_available is not None:
            used = host.memory_total - host.memory_available
            parts.append(f"{words.size(used)} of {words.size(host.memory_total)} used on the host")
        used_on = [gpu.memory.value for gpu in self.gpus.values() if gpu.memory.value is not None]
        if len(used_on) > 1:
            spread = max(used_on) - min(used_on)
            parts.append("GPUs equal" if spread <= 0.02 * max(used_on) else f"GPUs differ by {words.size(spread)}")
        return ", ".join(parts)


_TITLES = {
    "log": "log",
    "cpu": "CPU of each rank with its children",
    "read": "read by each rank",
    "write": "written by each rank",
    "memory": "memory of each rank",
    "gpu-memory": "GPU memory",
    "gpu": "GPUs",
    "collectives": "NCCL launch counts",
}
_LEVELS = ("memory", "gpu-memory", "collectives")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"


def _gpu_words(track: GpuTrack) -> str:
    gpu = track.gpu
    if gpu is None or gpu.util_percent is None:
        return ""
    power = ""
    if gpu.power_w is not None:
        limit = f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w else ""
        power = f" at {gpu.power_w:.0f}{limit} W"
    return f"{gpu.util_percent:.0f} %{power}"


def compilers_words(found: dict[str, int]) -> str:
    """``2 nvcc, 1 ptxas``."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))


def ranks_words(scene: Scene, ranks: Sequence[str]) -> str:
    """Their names; of everybody only the number."""
    return words.names(ranks) if len(ranks) < len(scene.alive) or len(ranks) == 1 else f"all {len(ranks)} ranks"
