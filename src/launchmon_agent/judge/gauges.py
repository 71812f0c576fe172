"""When a quantity last moved. Pure.

A gauge is fed what a sensor read, with its time. A reading of ``None`` is a missing one: it says neither that the
quantity moved nor that it stood still. Memory is constant.
"""

from __future__ import annotations

FRESH_S = 5.0
"""A gauge without a reading for this long says nothing about the present."""


class Gauge:
    """Base of the gauges: a value, and the time of its last move."""

    __slots__ = ("first_at", "moved_at", "read_at", "value")

    def __init__(self) -> None:
        self.value: float | None = None  # the newest reading
        self.first_at: float | None = None  # of the first reading
        self.read_at: float | None = None  # of the newest one
        self.moved_at: float | None = None

    def _take(self, at: float, value: float) -> None:
        self.value = value
        self.read_at = at
        if self.first_at is None:
            self.first_at = at

    def known(self, now: float) -> bool:
        return self.read_at is not None and now - self.read_at <= FRESH_S

    def quiet_s(self, now: float) -> float | None:
        """For how long it has not moved: at least since the first reading. None: missing."""
        if self.first_at is None or not self.known(now):
            return None
        return max(0.0, now - (self.first_at if self.moved_at is None else self.moved_at))


class Rate(Gauge):
    """A rate moves when one reading reaches ``sure``, or two of the last three reach ``floor``.

    A single small reading is what looking costs: a stack dump, a sample.
    """

    __slots__ = ("_floor", "_recent", "_sure")

    def __init__(self, floor: float, sure: float) -> None:
        super().__init__()
        self._floor, self._sure = floor, sure
        self._recent = (False, False)

    def feed(self, at: float, value: float | None) -> None:
        if value is None:
            return
        self._take(at, value)
        above = value >= self._floor
        if value >= self._sure or (above and any(self._recent)):
            self.moved_at = at
        self._recent = (self._recent[1], above)


class Level(Gauge):
    """A level moves when it differs by ``step`` from where it last moved to: slow growth adds up."""

    __slots__ = ("_step", "_there")

    def __init__(self, step: float) -> None:
        super().__init__()
        self._step = step
        self._there: float | None = None

    def feed(self, at: float, value: float | None) -> None:
        if value is None:
            return
        self._take(at, value)
        if self._there is None:
            self._there = value
        elif abs(value - self._there) >= self._step:
            self._there = value
            self.moved_at = at


class Counter(Rate):
    """A counter that only grows, as its gain per second. It starts again when it falls."""

    __slots__ = ("_last",)

    def __init__(self, floor: float, sure: float) -> None:
        super().__init__(floor, sure)
        self._last: tuple[float, float] | None = None

    def feed(self, at: float, value: float | None) -> None:
        if value is None:
            return
        last, self._last = self._last, (at, value)
        if last is not None and at > last[0] and value >= last[1]:
            super().feed(at, (value - last[1]) / (at - last[0]))
