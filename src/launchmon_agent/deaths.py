"""The moment at which each process of a run ends, to the millisecond: the first to go is the cause, the rest follow.

A pidfd becomes readable when its process ends (pidfd_open(2), Linux 5.3), also for processes that are not our children.
Where there are none, nothing is known here and the sensor's own second has to do: an old kernel, or a Python that was
built for one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable

from launchmon_agent.events import Process
from launchmon_agent.sensors import proc

Key = tuple[int, float]
"""pid and start time."""


class Deaths:
    """Watches processes on the running event loop. ``noticed`` is called after each end."""

    def __init__(self, clock: Callable[[], float], noticed: Callable[[], None]) -> None:
        self._clock = clock
        self._noticed = noticed
        self._open: dict[Key, int] = {}
        self._at: dict[Key, float] = {}

    def watch(self, processes: Iterable[Process]) -> None:
        """Take up those that are new."""
        for process in processes:
            key = (process.pid, process.start_time)
            if key in self._open or key in self._at:
                continue
            try:
                descriptor = os.pidfd_open(process.pid)
            except (OSError, AttributeError):  # gone meanwhile, or there are no pidfds
                continue
            if not proc.same_process(*key):
                os.close(descriptor)
                continue
            self._open[key] = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._ended, key)

    def at(self, pid: int, start_time: float | None) -> float | None:
        """When this process ended; None when that was not seen."""
        return None if start_time is None else self._at.get((pid, start_time))

    def watches(self, pid: int, start_time: float | None) -> bool:
        """Whether its end will be noticed, or is about to be."""
        return start_time is not None and (pid, start_time) in self._open

    def close(self) -> None:
        for descriptor in self._open.values():
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._open.clear()

    def _ended(self, key: Key) -> None:
        self._at[key] = self._clock()
        descriptor = self._open.pop(key)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._noticed()
