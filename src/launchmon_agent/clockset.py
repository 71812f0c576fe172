"""Notices that the clock was set, or that the machine slept: times from before tell nothing about how long it is since.

Pure: it is given both clocks.
"""

from __future__ import annotations

LEAST_S = 5.0
"""Less than that is the pace of a clock that is kept right, or a thread that had to wait between its two readings."""


class ClockSet:
    """Of one watch. ``wall`` and ``steady`` are of one moment: ``time.time()`` and ``time.monotonic()``."""

    def __init__(self) -> None:
        self._ahead: float | None = None

    def by(self, wall: float, steady: float) -> float | None:
        """Seconds by which it was set forward since the last question (less than zero: back); None: it was not."""
        before, self._ahead = self._ahead, wall - steady
        moved = 0.0 if before is None else self._ahead - before
        return moved if abs(moved) > LEAST_S else None
