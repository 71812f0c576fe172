"""How fast bytes arrive, and how long the rest will take. Pure."""

from __future__ import annotations

from collections import deque

WINDOW_S = 20.0
"""Over which the rate is taken: shards are opened in between, and a second says little."""

ENOUGH_S = 5.0
"""Below it a rate is a guess."""


class Transfer:
    """Counts bytes from its first reading on."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()  # at, bytes since the first reading
        self._first: tuple[float, float] | None = None

    def feed(self, at: float, count: float) -> None:
        """``count``: so far, from whatever beginning. One that falls begins anew."""
        if self._first is None or count < self._first[1] + (self._points[-1][1] if self._points else 0.0):
            self._first = (at, count)
            self._points.clear()
        self._points.append((at, count - self._first[1]))
        while len(self._points) > 2 and self._points[1][0] <= at - WINDOW_S:
            self._points.popleft()

    @property
    def done(self) -> float:
        """Bytes since the first reading."""
        return self._points[-1][1] if self._points else 0.0

    @property
    def bps(self) -> float | None:
        """Bytes per second over the last seconds; None: not watched for long enough."""
        if not self._points:
            return None
        (begin, before), (end, after) = self._points[0], self._points[-1]
        return (after - before) / (end - begin) if end - begin >= ENOUGH_S else None

    def left_s(self, rest: float) -> float | None:
        """Seconds that the rest takes at this rate; None: not known, or it stands still."""
        bps = self.bps
        return rest / bps if bps and bps >= 1.0 and rest > 0 else None
