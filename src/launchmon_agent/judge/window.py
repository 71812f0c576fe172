"""The evidence: what moved over the last seconds, per rank, per GPU and on the host, and what did not for how long.

Pure: fold the run's events in, in their order; ask for any moment at or after the newest. Missing evidence is missing
(``None``), never zero. Memory is bounded: a track for each living process of the run and for each GPU, the last few
dumps and answers of NCCL's RAS.
"""

from __future__ import annotations

import re
from collections import deque

from launchmon_agent.events import (
    LAUNCHER,
    Beat,
    Event,
    Expected,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Log,
    LogError,
    Mark,
    ModelFiles,
    Notice,
    Processes,
    Progress,
    Ras,
    Stacks,
    Verdict,
)
from launchmon_agent.judge.gauges import Counter, Rate
from launchmon_agent.judge.stackview import StackView, view
from launchmon_agent.judge.tracks import GpuTrack, ProcessTrack
from launchmon_agent.judge.transfer import Transfer

DUMPS = 8
"""Newest dumps kept: two rounds of three, and what somebody asked for meanwhile."""

ANSWERS = 6
"""Newest answers of NCCL's RAS kept."""

VIEWS = 8

MIB = 1024 * 1024
HOST_FLOOR, HOST_SURE = MIB, 8 * MIB
"""Bytes per second of all disks or links: other programs of the machine make some."""

NOISE_S = 4.0
"""What a watchdog that only warns writes, its own stack dump included, comes within this time."""

STAMP_S = 2.0
"""Log lines tell whole seconds, and the next sample comes within one."""

_ACCESS = re.compile(r'(?:INFO: +)?[\w.:\[\]-]+ - "[A-Z]+ /')
"""Uvicorn's access lines: our own looks at the server make them, and a prober's."""

_BATCH = ("Prefill batch", "Decode batch")


class EvidenceWindow:
    """See the module. Attributes are empty or ``None`` until an event fills them."""

    def __init__(self) -> None:
        self.ranks: dict[str, ProcessTrack] = {}
        self.others: dict[str, ProcessTrack] = {}  # launcher, dp-controller, detokenizer
        self.gpus: dict[int, GpuTrack] = {}
        self.disk = Rate(HOST_FLOOR, HOST_SURE)
        self.net = Rate(HOST_FLOOR, HOST_SURE)
        self.oom_kills = Counter(0.001, 0.001)  # of the control group
        self.host: Host | None = None
        self.expected: Expected | None = None  # what earlier runs took
        self.spoken_at: float | None = None  # the last log line that says something, or refresh of a bar
        self.last_mark: Mark | None = None
        self.batch_at: float | None = None  # a rank said that it computes a batch
        self.rank_seen_at: dict[str, float] = {}  # when each rank was last among the processes
        self.pids_match = False  # NVML's pids are those that we see: a rank was found by its own
        self.beats: dict[str, Beat] = {}
        self.beats_at: float | None = None
        self.requests_moved_at: float | None = None  # the numbers of requests, as the server tells them
        self.requests: tuple[int | None, int | None] | None = None  # running, queued
        self.ras: deque[Ras] = deque(maxlen=ANSWERS)
        self.loading: Transfer | None = None  # read by the ranks since their weights began; None: not seen from there
        self.arriving = Transfer()  # bytes of the model's files on the disk
        self.dumps: deque[Stacks] = deque(maxlen=DUMPS)
        self.observed_since: float | None = None
        # How often something happened or changed in kind; samples that only go on as before do not count.
        self.stirs = 0
        self._grown_at: float | None = None
        self._generation: int | None = None
        self._last_offset = -1
        self._noise_until = 0.0
        self._views: dict[object, StackView | None] = {}
        self._bars: dict[tuple[str, str | None], tuple[str, int, int]] = {}

    def viewed(self, dumps: tuple[Stacks, ...], ranks: frozenset[str]) -> StackView | None:
        """What these dumps say of these ranks. Worked out once: the same question comes every second."""
        key = (tuple((dump.id, dump.at) for dump in dumps), ranks)
        if key not in self._views:
            if len(self._views) >= VIEWS:
                self._views.clear()
            self._views[key] = view(dumps, ranks)
        return self._views[key]

    def begin_anew(self, expected: Expected | None, now: float) -> None:
        """Times before are of no use any more: silence, the log's included, is counted from now on."""
        self.expected, self.spoken_at = expected, now

    # ------------------------------------------------------------------------------------------------------------ fold

    def fold(self, event: Event) -> None:
        """Take one event in. Kinds that carry no evidence change nothing."""
        self.stirs += self._take(event)

    def _take(self, event: Event) -> bool:
        """Whether it is more than a sample that goes on as the one before."""
        match event:
            case Processes():
                return self._fold_processes(event)
            case Gpus():
                stirred = [self.gpus.setdefault(gpu.index, GpuTrack()).feed(event.at, gpu) for gpu in event.gpus]
                return any(stirred)
            case Host():
                return self._fold_host(event)
            case Log():
                return self._fold_log(event)
            case Mark():
                self._fold_mark(event)
            case LogError(id="watchdog_soft"):
                self._noise_until = event.at + NOISE_S
            case Progress():
                known = self._bars.get((event.rank, event.phase))
                if known != (event.label, event.done, event.total):
                    self._bars[event.rank, event.phase] = (event.label, event.done, event.total)
            case Http():
                self._fold_requests(event.at, (event.running, event.queued))
            case Heartbeat():
                return self._fold_beats(event)
            case Ras():
                return self._fold_ras(event)
            case Expected():
                self.expected = event
            case ModelFiles():
                if event.here is not None:
                    self.arriving.feed(event.at, event.here)
            case Stacks():
                self.dumps.append(event)
            case Verdict() | Notice():
                return False
        return True

    def _fold_processes(self, event: Processes) -> bool:
        if self.observed_since is None:
            self.observed_since = event.at
        ranks: dict[str, ProcessTrack] = {}
        others: dict[str, ProcessTrack] = {}
        stirred = False
        for process in event.processes:
            if process.state == "Z":
                continue
            if process.rank is not None:
                place, name, known = ranks, process.rank, self.ranks
            elif process.role in (LAUNCHER, "dp-controller", "detokenizer", "spawning"):
                place, name, known = others, process.role, self.others
            else:
                continue
            track = known.get(name)
            if track is None or track.key != (process.pid, process.start_time):
                track = self._renamed(process.pid, process.start_time) or ProcessTrack(process)
            stirred |= track.feed(event.at, process)
            self.pids_match |= process.gpu_mapped_by == "pid"
            place[name] = track
        stirred |= ranks.keys() != self.ranks.keys() or others.keys() != self.others.keys()
        self.rank_seen_at.update(dict.fromkeys(ranks, event.at))
        self.ranks, self.others = ranks, others
        self._feed_loading(event.at)
        return stirred

    def _feed_loading(self, at: float) -> None:
        if self.loading is not None and all(track.read.known(at) for track in self.ranks.values()):
            self.loading.feed(at, sum(track.bytes_read for track in self.ranks.values()))

    def _renamed(self, pid: int, start_time: float) -> ProcessTrack | None:
        """A rank is named by its place until it has a title."""
        for track in (*self.ranks.values(), *self.others.values()):
            if track.key == (pid, start_time):
                return track
        return None

    def _fold_host(self, event: Host) -> bool:
        self.host = event
        self.disk.feed(event.at, event.disk_read_bps)
        self.net.feed(event.at, event.net_rx_bps)
        self.oom_kills.feed(event.at, event.cgroup_oom_kills)
        return self.oom_kills.moved_at == event.at  # the traffic of other programs comes and goes all the time

    def _fold_log(self, event: Log) -> bool:
        if event.generation != self._generation:
            self._generation, self._last_offset = event.generation, -1
        newest = max(event.last, key=lambda line: line.offset, default=None)
        for line in event.last:
            if line.rank != LAUNCHER and line.text.startswith(_BATCH):
                self.batch_at = max(self.batch_at or 0.0, line.at)
        grown = event.grown_at is not None and event.grown_at != self._grown_at
        self._grown_at = event.grown_at
        if not grown or event.grown_at is None:
            return False
        spoke = event.grown_at
        if newest is not None and newest.offset > self._last_offset:
            self._last_offset = newest.offset
            if spoke <= self._noise_until:
                return True
            if _ACCESS.match(newest.text):
                spoke = max((line.at for line in event.last if not _ACCESS.match(line.text)), default=0.0)
        self.spoken_at = max(self.spoken_at or 0.0, spoke) or None
        return True

    def _fold_mark(self, mark: Mark) -> None:
        if mark.id == "args":
            self.batch_at = None
            self.loading = None
            self._bars.clear()
        if (mark.what, mark.phase) == ("begin", "weights") and self.loading is None and self._watched_at(mark.at):
            self.loading = Transfer()
            self._feed_loading(mark.at)
        self.last_mark = mark

    def _watched_at(self, at: float) -> bool:
        """Whether the ranks' bytes were counted already: who attaches later does not know what was read before."""
        first = [track.read.first_at for track in self.ranks.values()]
        return bool(first) and all(time is not None and time <= at + STAMP_S for time in first)

    def _fold_beats(self, event: Heartbeat) -> bool:
        self.beats_at = event.at
        self.beats = {beat.rank or "": beat for beat in event.beats}
        told = [(beat.running, beat.waiting) for beat in event.beats if beat.running is not None]
        if told:
            waiting = sum(queued or 0 for _, queued in told)
            self._fold_requests(event.at, (sum(running or 0 for running, _ in told), waiting))
        return self.requests_moved_at == event.at

    def _fold_ras(self, event: Ras) -> bool:
        last = self.ras[-1] if self.ras else None
        if last is not None and event.answered is not None and last.answered == event.answered:
            return False
        self.ras.append(event)
        return last is None or (last.error, last.communicators) != (event.error, event.communicators)

    def _fold_requests(self, at: float, requests: tuple[int | None, int | None]) -> None:
        if requests == (None, None):
            return
        if requests != self.requests:
            self.requests, self.requests_moved_at = requests, at
