"""The heartbeat of a serving SGLang: idle or stuck, with no request, no log line and no ptrace.

From 0.5.13 on, rank 0 of each replica writes its load into ``/dev/shm/sglang_loads_*.shm`` on every turn of its event
loop. How long ago it last did so is near zero while it idles, and grows while it is stuck, whether in a collective that
a peer never joins, or stopped. It grows during a long prefill and a compile too: what that means is for the judge.

Layout, as in ``sglang/srt/managers/load_snapshot.py`` of 0.5.13 to 0.5.23: a header ``<4sHHI`` (magic ``SLNS``, version
2, replicas, bytes a slot), then one slot for each replica: ``<I`` length of what follows, 0 while it is being written,
and a MessagePack map that leaves out what is zero, ``timestamp`` (wall clock) included.

Files of earlier servers are never removed, so the file is found through the living process's own descriptors, and read
through them, which also reaches into a container. SGLang's own readers take a lock; this one does not: if it were
stopped while it held the lock, the server would wait for it.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from launchmon_agent.events import Beat, Heartbeat, Process
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.msgpack import unpack
from launchmon_agent.sglang.titles import SCHEDULER, coordinates

SEARCH_S = 5.0
"""Between looks at the descriptors of a rank that has no such file: it opens one late, or never will."""

AFRESH_S = 60.0
"""In between only descriptors that were not there before are looked at: a rank holds hundreds. The number of one that
was closed may be given to the file, so this often all are looked at."""

TRIES = 4
"""Readings of one slot before it counts as being written."""

_FILE = re.compile(r"/dev/shm/sglang_loads_\S+\.shm( \(deleted\))?")  # noqa: S108 - read, not written
_HEADER = struct.Struct("<4sHHI")
_LENGTH = struct.Struct("<I")
_MAGIC, _VERSION = b"SLNS", 2
_LARGEST_SLOT = 1 << 20


class HeartbeatSensor:
    """The replicas of one run. :meth:`sample` reads some hundred bytes a replica."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[int, float], _Rank] = {}

    def sample(self, now: float, processes: Sequence[Process]) -> Heartbeat:
        """``processes``: of the run, as last sampled. Those that publish nothing are passed over. Never raises."""
        living = {
            (process.pid, process.start_time): process
            for process in processes
            if process.role == SCHEDULER and process.state != "Z" and process.pid > 0
        }
        self._ranks = {key: self._ranks.get(key) or _Rank() for key in living}
        beats = (self._ranks[key].beat(now, process) for key, process in living.items())
        return Heartbeat(now, tuple(beat for beat in beats if beat is not None))


@dataclass(frozen=True)
class Load:
    """What a slot holds. ``timestamp`` None: the event loop has not turned yet. Throughput in tokens per second."""

    timestamp: float | None
    running: int
    waiting: int
    token_usage: float
    gen_throughput: float


class _Rank:
    """One scheduler: which of its descriptors is the file, and what was read there last."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._searched_at: float | None = None
        self._afresh_at: float | None = None
        self._others: set[int] = set()  # descriptors of something else
        self._load: Load | None = None

    def beat(self, now: float, process: Process) -> Beat | None:
        """None where the rank publishes nothing. A reading that fails leaves the last one standing, which ages."""
        if self._descriptor is None and not self._find(now, process.pid):
            return None
        slot = coordinates(process.rank or "").get("DP", 0)
        path = f"{proc.PROC}/{process.pid}/fd/{self._descriptor}"
        try:
            if not _FILE.fullmatch(os.readlink(path)):
                self._descriptor = None
                return None
            self._load = read_slot(path, slot) or self._load
        except OSError:
            self._descriptor = None
        known = Beat(process.pid, process.start_time, process.rank)
        return known if self._load is None else _told(known, self._load, now)

    def _find(self, now: float, pid: int) -> bool:
        if self._searched_at is not None and 0 <= now - self._searched_at < SEARCH_S:
            return False
        self._searched_at = now
        if self._afresh_at is None or not 0 <= now - self._afresh_at < AFRESH_S:
            self._afresh_at = now
            self._others.clear()
        links = proc.fd_links(pid, self._others) or {}
        self._descriptor = next((number for number, link in links.items() if _FILE.fullmatch(link)), None)
        self._others.update(number for number in links if number != self._descriptor)
        return self._descriptor is not None


def _told(known: Beat, load: Load, now: float) -> Beat:
    if load.timestamp is None:
        return Beat(known.pid, known.start_time, known.rank, initialised=False)
    return Beat(
        known.pid,
        known.start_time,
        known.rank,
        initialised=True,
        age_s=max(0.0, now - load.timestamp),
        running=load.running,
        waiting=load.waiting,
        token_usage=load.token_usage,
        gen_throughput=load.gen_throughput,
    )


def read_slot(path: str, slot: int) -> Load | None:
    """One replica's load. None where there is none to be had: another layout, no such slot, or always being written.

    Raises OSError where the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(descriptor, _HEADER.size, 0)
        if len(head) != _HEADER.size:
            return None
        magic, version, slots, size = _HEADER.unpack(head)
        if magic != _MAGIC or version != _VERSION or not 0 <= slot < slots or not 4 < size <= _LARGEST_SLOT:
            return None
        for _ in range(TRIES):
            load = _load(_payload(descriptor, _HEADER.size + slot * size, size))
            if load is not None:
                return load
    finally:
        os.close(descriptor)
    return None


def _payload(descriptor: int, offset: int, size: int) -> bytes | None:
    """None: it is being written. The length is read before and after: a writer sets it to 0 in between."""
    before = os.pread(descriptor, _LENGTH.size, offset)
    if len(before) != _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(before)
    if not 0 < length <= size - _LENGTH.size:
        return None
    payload = os.pread(descriptor, length, offset + _LENGTH.size)
    after = os.pread(descriptor, _LENGTH.size, offset)
    return payload if after == before and len(payload) == length else None


def _load(payload: bytes | None) -> Load | None:
    """None: torn, or no such map."""
    if payload is None:
        return None
    try:
        said = unpack(payload)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    return Load(
        timestamp=_number(said, "timestamp") or None,
        running=int(_number(said, "num_running_reqs")),
        waiting=int(_number(said, "num_waiting_reqs")),
        token_usage=_number(said, "token_usage"),
        gen_throughput=_number(said, "gen_throughput"),
    )


def _number(said: dict[Any, Any], name: str) -> float:
    """A number of the map, which leaves out zeros."""
    value = said.get(name, 0)
    return float(value) if isinstance(value, (int, float)) and value == value and abs(value) < 1e15 else 0.0
