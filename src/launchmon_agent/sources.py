"""What a watch observes with: the shape of each sensor, so that tests can hold their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from launchmon_agent.events import (
    Event,
    Exit,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Process,
    Processes,
    Ras,
    Run,
    Stacks,
)
from launchmon_agent.model import RunModel


class GpuSource(Protocol):
    def sample(self, now: float) -> Gpus: ...


class ProcessSource(Protocol):
    def sample(self, now: float, gpus: Gpus | None) -> Processes: ...
    def vanished(self, now: float) -> list[Exit]: ...
    def expect(self, ranks: Sequence[str]) -> None: ...


class HostSource(Protocol):
    def sample(self, now: float) -> Host: ...


class HttpSource(Protocol):
    def sample(self, now: float) -> Http: ...
    @property
    def pause_s(self) -> float:
        """Seconds until it is worth looking again."""


class KernelSource(Protocol):
    def poll(self, now: float, pids: Iterable[int]) -> Sequence[Event]: ...


class LogSource(Protocol):
    """A followed log. All calls come from one thread, except ``search`` and ``count``, which share another."""

    def poll(self, now: float) -> list[Event]: ...
    @property
    def behind(self) -> bool: ...
    def window(self, *args: Any, **kwargs: Any) -> Any: ...
    def search(self, *args: Any, **kwargs: Any) -> Any: ...
    def count(self, *args: Any, **kwargs: Any) -> Any: ...
    def place(self, *args: Any, **kwargs: Any) -> Any: ...
    def close(self) -> None: ...


class HeartbeatSource(Protocol):
    def sample(self, now: float, processes: Sequence[Process]) -> Heartbeat: ...


class RasSource(Protocol):
    def sample(self, now: float, processes: Sequence[Process], *, outstanding: bool) -> Ras | None: ...


class StackSource(Protocol):
    def dump(self, native: bool = False, locals_of: str | None = None, automatic: bool = False) -> Stacks: ...


@dataclasses.dataclass(frozen=True)
class Look:
    """Something that is looked at now and then, in a thread of its own: a file system may not answer."""

    name: str
    find: Callable[[Run, float], Event | None]  # None: nothing can be said
    every_s: float | None = None  # between two looks; None: one is enough


IsOurs = Callable[[int], bool | None]
"""Whether a process is of the run; None: that is not known yet."""


@dataclasses.dataclass
class Sensors:
    gpu: GpuSource
    host: HostSource
    kernel: KernelSource
    processes: ProcessSource | None = None
    http: Callable[[Run, IsOurs], HttpSource] | None = None  # made anew when more of the run is known
    stacks: Callable[[Run, Sequence[Process]], StackSource] | None = None  # for one dump
    heartbeat: HeartbeatSource | None = None
    ras: RasSource | None = None
    expected: Callable[[RunModel, float], Event | None] | None = None  # what earlier runs of the kind took
    looks: tuple[Look, ...] = ()
