"""The machine as a whole, each second: memory, CPU, disks, network, the filesystems of interest, the control group."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping

from launchmon_agent.events import Host
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.cgroup import Group
from launchmon_agent.sensors.mounts import mounts, resolve, type_of
from launchmon_agent.sensors.usage import Rate

MOUNTS_S = 60.0
"""Between two looks at the mounts."""

_SECTOR = 512
"""Bytes: the unit of /proc/diskstats, whatever the disk's own sector is (Documentation/admin-guide/iostats.rst)."""

_MEMORY = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
_NOT_A_DISK = re.compile(r"(loop|ram|zram|dm-|md|nbd|sr|fd|drbd)\d+")
_PARTITION = re.compile(r"((s|h|v|xv)d[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+)p\d+)")
_NOT_A_LINK = re.compile(r"(lo|docker\d*|br-.*|veth.*|virbr.*|cni\d*|flannel.*|cali.*|tunl\d+|dummy\d+|tap.*|vnet.*)")


class HostSensor:
    """The machine that the agent runs on."""

    def __init__(self, paths: Mapping[str, str | None] | None = None, *, pid: int | None = None) -> None:
        """``paths``: what → path, of which the filesystem type is told ("model", "cache", "shm").

        ``pid``: of the launcher, whose control group counts; without it the agent's own.
        """
        self._paths = {what: path for what, path in (paths or {}).items() if path}
        self._resolved: dict[str, str] | None = None
        self._group = Group(pid or "self")
        self._filesystems: dict[str, str] = {}
        self._looked_at: float | None = None
        self._busy, self._all = Rate(), Rate()
        self._read, self._write, self._rx, self._tx = Rate(), Rate(), Rate(), Rate()

    def sample(self, now: float) -> Host:
        """Never raises; rates from the second sample on."""
        memory = _memory()
        shm_total, shm_used = _shm()
        busy, whole = _cpu_ticks()
        busy_rate, all_rate = self._busy.per_second(busy, now), self._all.per_second(whole, now)
        read, written = disk_bytes((proc.read(f"{proc.PROC}/diskstats") or b"").decode("ascii", "replace"))
        received, sent = net_bytes((proc.read(f"{proc.PROC}/net/dev") or b"").decode("ascii", "replace"))
        group = self._group.memory()
        return Host(
            at=now,
            memory_total=memory.get("MemTotal"),
            memory_available=memory.get("MemAvailable"),
            swap_used=_difference(memory.get("SwapTotal"), memory.get("SwapFree")),
            shm_total=shm_total,
            shm_used=shm_used,
            load1=_load1(),
            cpus=os.cpu_count(),
            cpu_percent=100 * busy_rate / all_rate if busy_rate is not None and all_rate else None,
            disk_read_bps=self._read.per_second(read, now),
            disk_write_bps=self._write.per_second(written, now),
            net_rx_bps=self._rx.per_second(received, now),
            net_tx_bps=self._tx.per_second(sent, now),
            filesystems=self._types(now),
            cgroup_memory_limit=group.limit,
            cgroup_memory_used=group.used,
            cgroup_oom_kills=group.oom_kills,
        )

    def _types(self, now: float) -> dict[str, str]:
        if self._looked_at is None or not 0 <= now - self._looked_at < MOUNTS_S:
            self._looked_at = now
            if self._resolved is None:
                self._resolved = {what: resolve(path) for what, path in self._paths.items()}
            among = mounts()
            types = {what: type_of(path, among) for what, path in self._resolved.items()}
            self._filesystems = {what: name for what, name in types.items() if name is not None}
        return self._filesystems


def _memory() -> dict[str, int]:
    """``/proc/meminfo`` in bytes. In a container too it is the machine's."""
    data = proc.read(f"{proc.PROC}/meminfo") or b""
    amounts = {name: proc.number_after(data, f"{name}:".encode()) for name in _MEMORY}
    return {name: amount * 1024 for name, amount in amounts.items() if amount is not None}


def _shm() -> tuple[int | None, int | None]:
    """Total and used bytes of /dev/shm."""
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 - it is only measured
    except OSError:
        return None, None
    return found.f_blocks * found.f_frsize, (found.f_blocks - found.f_bfree) * found.f_frsize


def _load1() -> float | None:
    words = (proc.read(f"{proc.PROC}/loadavg") or b"").split()
    return float(words[0]) if words else None


def _cpu_ticks() -> tuple[int | None, int | None]:
    """Busy and all, of all CPUs together. guest times are within user times already."""
    words = (proc.read(f"{proc.PROC}/stat") or b"").split(b"\n", 1)[0].split()[1:9]
    if len(words) < 5:
        return None, None
    ticks = [int(word) for word in words]
    idle = ticks[3] + ticks[4]  # idle and waiting for a disk
    return sum(ticks) - idle, sum(ticks)


def disk_bytes(diskstats: str, sysfs: str = "/sys/block") -> tuple[int | None, int | None]:
    """Bytes read and written so far by the physical disks: what lies on top of them would count twice."""
    rows = [fields for fields in map(str.split, diskstats.splitlines()) if len(fields) >= 10]
    disks = [fields for fields in rows if _is_device(f"{sysfs}/{fields[2]}")]
    if not disks:  # no sysfs, as in some containers
        disks = [fields for fields in rows if not (_NOT_A_DISK.match(fields[2]) or _PARTITION.fullmatch(fields[2]))]
    if not disks:
        return None, None
    return _total(disks, 5, _SECTOR), _total(disks, 9, _SECTOR)


def net_bytes(dev: str, sysfs: str = "/sys/class/net") -> tuple[int | None, int | None]:
    """Bytes received and sent so far by the physical links; in a container, which has none, by all but loopback."""
    rows = [line.replace(":", " ").split() for line in dev.splitlines() if ":" in line]
    rows = [fields for fields in rows if len(fields) >= 10]
    links = [fields for fields in rows if _is_device(f"{sysfs}/{fields[0]}")]
    if not links:
        links = [fields for fields in rows if not _NOT_A_LINK.fullmatch(fields[0])]
    if not links:
        return None, None
    return _total(links, 1), _total(links, 9)


@functools.lru_cache(maxsize=4096)
def _is_device(folder: str) -> bool:
    """Asked once of each name: a machine with containers has hundreds of links, and none changes its nature."""
    return os.path.exists(f"{folder}/device")


def _total(rows: Iterable[list[str]], column: int, unit: int = 1) -> int:
    return sum(int(fields[column]) for fields in rows) * unit


def _difference(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part
