"""Rates of one process: what its counters have gained since the sample before."""

from __future__ import annotations

from launchmon_agent.sensors.proc import TICKS

SHORTEST_S = 0.25
"""Two samples closer than this make no new rate: CPU time comes in ticks of 10 ms."""

_PATIENCE = 3
"""Samples for which a falling sum of CPU times is taken for a child between two readings; then it is the new truth."""


class Rate:
    """Gain per second of a counter. None for the first sample and after a gap in the readings or in time."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None  # value and time
        self._rate: float | None = None

    def per_second(self, value: float | None, now: float) -> float | None:
        last = self._last
        if last is not None and value is not None and 0 <= now - last[1] < SHORTEST_S:
            return self._rate
        self._last = None if value is None else (value, now)
        gained = None if last is None or value is None or now < last[1] else max(0.0, value - last[0])
        self._rate = None if gained is None or last is None else gained / (now - last[1])
        return self._rate


class TreeCpu:
    """CPU time of a process with its children as a counter that never falls.

    The sum falls for a moment when a child is waited for after its parent was read and before itself is, and for good
    when a child's time is lost because nobody waits for it.
    """

    def __init__(self) -> None:
        self._highest = 0.0
        self._lower = 0
        self._offset = 0.0

    def advance(self, ticks: int) -> float:
        """``ticks`` is the sum as read; returns seconds."""
        seconds = ticks / TICKS
        if seconds + self._offset >= self._highest:
            self._highest, self._lower = seconds + self._offset, 0
        else:
            self._lower += 1
            if self._lower >= _PATIENCE:
                self._offset, self._lower = self._highest - seconds, 0
        return self._highest
