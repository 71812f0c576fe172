"""What is known of one process and of one GPU over the last seconds. Pure.

The thresholds say what counts as a move. They lie well above what waiting costs (a gloo wait with its helper threads:
2 % of a core, seen on a real hang) and well below the slowest work (weights from a network share at 5 MB/s).
"""

from __future__ import annotations

from launchmon_agent.events import Gpu, Process
from launchmon_agent.judge.gauges import Counter, Level, Rate

KIB, MIB = 1024, 1024 * 1024

CPU_FLOOR, CPU_SURE = 5.0, 20.0
"""Percent of one core."""

BYTES_FLOOR, BYTES_SURE = 32 * KIB, 512 * KIB
"""Bytes per second. Below the floor lie a log line and the timestamps of a cache."""

FAULTS_FLOOR, FAULTS_SURE = 8.0, 64.0
"""Major faults per second: a page read from a disk, through a mapping."""

RSS_STEP = 4 * MIB
GPU_MEMORY_STEP = 8 * MIB

SPIN_UTIL, SPIN_POWER, SPIN_MEMORY = 90.0, 0.45, 5.0
"""A GPU that waits in a collective: utilisation at least, share of its power limit at most, memory controller at most.
Reports: 100 of 700 W (H100), 210 of 950 W (GB200), memory controller at 0 %; work draws more, or varies."""

SPIN_FLAT = 0.03
"""Share of the power limit by which the power of a waiting GPU may vary."""

BUSY_UTIL = 10.0
"""Percent. Below, a GPU only shows a desktop or a monitor's own queries."""

DISK_WAITS = (
    *("folio_wait", "wait_on_page", "filemap_fault", "io_schedule", "nfs", "rpc_wait", "ceph", "fuse"),
    *("request_wait_answer", "cl_sync", "osc_", "ll_", "gpfs", "xfs_", "ext4_", "blkdev"),
)
"""Beginnings of kernel functions in which a process waits for a file system, some of them in state S."""

COMPILERS = frozenset(
    ("nvcc", "cicc", "cudafe++", "ptxas", "nvlink", "fatbinary", "ninja", "cmake", "hipcc", "clang", "ld", "as")
) | frozenset(("cc1plus", "g++"))
"""Kinds of children (sensors/children.table) that live only while they compile."""

POOLS = frozenset(("inductor",))
"""Compile workers that stay when they have nothing to do: they count while the tree burns CPU that its head does not.
"""


class ProcessTrack:
    """One process, with what runs below it."""

    def __init__(self, first: Process) -> None:
        self.process = first
        self.seen_at = 0.0
        self.cpu = Rate(CPU_FLOOR, CPU_SURE)  # of the tree
        self.own_cpu = Rate(CPU_FLOOR, CPU_SURE)
        self.below_cpu = Rate(CPU_FLOOR, CPU_SURE)  # of the tree without its head
        self.read = Rate(BYTES_FLOOR, BYTES_SURE)
        self.write = Rate(BYTES_FLOOR, BYTES_SURE)
        self.faults = Counter(FAULTS_FLOOR, FAULTS_SURE)
        self.rss = Level(RSS_STEP)
        self.bytes_read = 0.0  # since it was first seen
        self.disk_sleep_at: float | None = None
        self.stopped_since: float | None = None  # SIGSTOP, not a tracer
        self.compiled_at: float | None = None
        self.compilers: dict[str, int] = {}  # as last seen
        self.downloaded_at: float | None = None
        self._manner: tuple[bool, ...] = ()

    @property
    def key(self) -> tuple[int, float]:
        return self.process.pid, self.process.start_time

    def feed(self, at: float, process: Process) -> bool:
        """Whether something changed in kind: began or ceased to move, was stopped or continued."""
        before, self.process = self.seen_at, process
        self.seen_at = at
        tree = process.tree_cpu_percent if process.tree_cpu_percent is not None else process.cpu_percent
        self.cpu.feed(at, tree)
        self.own_cpu.feed(at, process.cpu_percent)
        if tree is not None and process.cpu_percent is not None:
            self.below_cpu.feed(at, max(0.0, tree - process.cpu_percent))
        self.read.feed(at, process.read_bps)
        self.write.feed(at, process.write_bps)
        self.faults.feed(at, process.major_faults)
        self.rss.feed(at, process.rss)
        if process.read_bps is not None and before:
            self.bytes_read += process.read_bps * max(0.0, at - before)
        if process.state == "D" or (process.blocked_in or "").startswith(DISK_WAITS):
            self.disk_sleep_at = at
        if process.state != "T":
            self.stopped_since = None
        elif self.stopped_since is None:
            self.stopped_since = at
        self._children(at, process)
        gauges = (self.cpu, self.below_cpu, self.read, self.write, self.faults, self.rss)
        times = (self.disk_sleep_at, self.compiled_at, self.downloaded_at)
        was, self._manner = (
            self._manner,
            (
                *(gauge.moved_at == at for gauge in gauges),
                *(time == at for time in times),
                self.stopped_since is None,
            ),
        )
        return self._manner != was

    def _children(self, at: float, process: Process) -> None:
        found = {kind: count for kind, count in process.children.items() if kind in COMPILERS}
        if self.below_cpu.moved_at == at:
            found.update({kind: count for kind, count in process.children.items() if kind in POOLS})
        if found:
            self.compiled_at, self.compilers = at, found
        if process.children.get("download"):
            self.downloaded_at = at


class GpuTrack:
    """One GPU."""

    def __init__(self) -> None:
        self.gpu: Gpu | None = None
        self.memory = Level(GPU_MEMORY_STEP)
        self.read_at: float | None = None
        self.first_at: float | None = None
        self.worked_at: float | None = None  # it was busy, and not in the way of one that waits
        self.spin_since: float | None = None  # busy at idle power since then
        self._spin_power = (0.0, 0.0)  # lowest and highest while it spins, W
        self._manner: tuple[object, ...] = ()

    def feed(self, at: float, gpu: Gpu) -> bool:
        """Whether something changed in kind: began or ceased to work, to spin, to fill or to answer."""
        self._take(at, gpu)
        was = self._manner
        self._manner = (self.memory.moved_at == at, self.worked_at == at, self.spin_since, gpu.error)
        return self._manner != was

    def _take(self, at: float, gpu: Gpu) -> None:
        self.gpu = gpu
        if gpu.error is not None and gpu.util_percent is None:
            return
        self.memory.feed(at, gpu.memory_used)
        if gpu.util_percent is None:
            return
        self.read_at = at
        if self.first_at is None:
            self.first_at = at
        if self._spins(gpu):
            assert gpu.power_w is not None and gpu.power_limit_w is not None
            low, high = min(self._spin_power[0], gpu.power_w), max(self._spin_power[1], gpu.power_w)
            if self.spin_since is None or high - low > SPIN_FLAT * gpu.power_limit_w:
                self.spin_since, low, high = at, gpu.power_w, gpu.power_w
            self._spin_power = (low, high)
            return
        self.spin_since = None
        if gpu.util_percent > BUSY_UTIL:
            self.worked_at = at

    @staticmethod
    def _spins(gpu: Gpu) -> bool:
        if gpu.util_percent is None or gpu.power_w is None or not gpu.power_limit_w:
            return False
        if gpu.memory_util_percent is not None and gpu.memory_util_percent > SPIN_MEMORY:
            return False
        return gpu.util_percent >= SPIN_UTIL and gpu.power_w <= SPIN_POWER * gpu.power_limit_w

    def work_quiet_s(self, now: float, fresh_s: float) -> float | None:
        """For how long it has done no work: idle, or busy at idle power. None: missing."""
        if self.first_at is None or self.read_at is None or now - self.read_at > fresh_s:
            return None
        times = [time for time in (self.worked_at, self.spin_since) if time is not None]
        return max(0.0, now - max(times, default=self.first_at))
