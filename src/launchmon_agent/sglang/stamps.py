"""Turns the log's time stamps into seconds since the epoch.

SGLang prints local time without a zone (its release 0.2.15 without a date as well). :class:`LogClock` reads it in the
zone of the machine and corrects by a multiple of 15 minutes where lines that were just written show that the server
runs in another zone, as in most containers.
"""

from __future__ import annotations

import time

_QUARTER = 900.0
_DAY = 86400.0
_EARLY, _LATE = -1.0, 5.0
"""A line is taken to tell the zone when it was seen this many seconds after its stamp, but for whole quarters."""
_MOST_APART = 26 * 3600.0
"""No two places on earth are further apart by the clock."""


class LogClock:
    """Reads stamps. The same stamps and calibrations in the same order give the same times."""

    def __init__(self) -> None:
        self.shift = 0.0  # seconds added to what the machine's zone gives
        self.last: float | None = None  # the newest time that was read
        self._minutes: dict[bytes, float] = {}

    def read(self, stamp: bytes, written_at: float | None = None) -> float | None:
        """The time of a stamp such as ``2026-11-29 17:36:46.123`` or ``17:36:46``; None where it is no time.

        ``written_at`` dates the first stamp of a log that has no dates.
        """
        if len(stamp) < 19:
            at = self._read_dateless(stamp, written_at)
        else:
            at = self._read_dated(stamp)
        if at is not None:
            self.last = at
        return at

    def calibrate(self, stamp: bytes, written_at: float) -> None:
        """Learn the zone from a line that was written at ``written_at``, seconds since the epoch."""
        at = self._read_dated(stamp) if len(stamp) >= 19 else None
        if at is None:
            return
        behind = written_at - at
        quarters = round(behind / _QUARTER)
        if quarters and abs(behind) <= _MOST_APART and _EARLY <= behind - quarters * _QUARTER <= _LATE:
            self.shift += quarters * _QUARTER
            if self.last is not None:
                self.last += quarters * _QUARTER

    def _read_dated(self, stamp: bytes) -> float | None:
        minute = stamp[:16]
        base = self._minutes.get(minute)
        if base is None:
            try:
                base = time.mktime(time.strptime(minute.decode("ascii"), "%Y-%m-%d %H:%M"))
            except (ValueError, OverflowError):
                return None
            if len(self._minutes) > 10_000:
                self._minutes.clear()
            self._minutes[minute] = base
        return base + self.shift + _seconds(stamp[17:])

    def _read_dateless(self, stamp: bytes, written_at: float | None) -> float | None:
        reference = self.last if self.last is not None else written_at
        if reference is None:
            return None
        hours, minutes = int(stamp[0:2]), int(stamp[3:5])
        if hours > 23 or minutes > 59:
            return None
        day = time.localtime(reference - self.shift)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1)) + self.shift
        at = midnight + hours * 3600 + minutes * 60 + _seconds(stamp[6:])
        if self.last is None:
            return at - _DAY if at > reference - _EARLY else at
        return min((at - _DAY, at, at + _DAY), key=lambda candidate: abs(candidate - reference))


def _seconds(text: bytes) -> float:
    return float(text.replace(b",", b"."))
