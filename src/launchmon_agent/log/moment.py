"""Finds a time in a log: the first line that was stamped then or later, by halves, however large the log is.

Times are those printed in the log, in whatever zone the server has. Stamps of several processes are a little out of
order; the line found may be some lines off, never more than they are.
"""

from __future__ import annotations

import calendar
import re
import time

from launchmon_agent.errors import Refused
from launchmon_agent.log.content import Content

CHUNK = 64 * 1024
"""Bytes read at once, and the length below which a stretch is read instead of halved."""

PATIENCE_S = 2.0
"""For a log with long stretches without a stamp."""

_DAY = 86400.0
_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d )?(\d\d):(\d\d):(\d\d)(?:[.,]\d{3})?(?: [A-Z][A-Z_]*\d+)*\]")
_CLOCK = re.compile(r"(?:(\d{4}-\d\d-\d\d)[ T])?(\d{1,2}):(\d\d)(?::(\d\d))?(?:[.,]\d+)?")
_AGO = re.compile(r"([+-])(\d+(?:\.\d+)?)(s|m|h|d)")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": _DAY}


def is_moment(text: str) -> bool:
    """Whether :func:`find` understands it: ``18:00``, ``2026-11-29 18:00:41``, ``-5m`` (before the end), ``+90s``."""
    return _CLOCK.fullmatch(text) is not None or _AGO.fullmatch(text) is not None


def find(content: Content, text: str, launch: int) -> int:
    """The offset of the first line at ``text``; ``+`` counts from the stamp at ``launch``, the newest launch's offset.

    Raises :class:`Refused` for what is no time, for a log without stamps, and for a time behind its last one.
    """
    text = text.strip()
    reader = _Reader(content, time.monotonic() + PATIENCE_S)
    last = reader.last()
    if not is_moment(text):
        raise Refused(f"{text!r} is no time", "18:00, 18:00:41, 2026-11-29 18:00:41, -5m or +90s is")
    if last is None:
        raise Refused("the log has no time stamps", "its lines do not begin as SGLang's do")
    at = reader.first_from(max(launch, content.floor), content.size())
    wanted = _wanted(text, first=last if at is None else at[1], last=last)
    found = reader.search(wanted)
    if found is None:
        raise Refused(f"the log has nothing at {text}", f"its last line is of {_clock(last)}")
    return content.line_start(found)


class _Reader:
    """Reads stamps as seconds; those without a date count back from the last of the log."""

    def __init__(self, content: Content, deadline: float) -> None:
        self._content = content
        self._deadline = deadline
        self._last: float | None = None
        self._dated = False

    def last(self) -> float | None:
        """The newest stamp, looked for from the end."""
        end = self._content.size()
        while end > self._content.floor:
            low = max(self._content.floor, end - CHUNK)
            found = list(_STAMP.finditer(self._content.read_at(low, end - low)))
            if found:
                dated = [match for match in found if match[1]]
                self._dated = bool(dated)
                self._last = self._read((dated or found)[-1])
                return self._last
            self._watch_time()
            end = low
        return None

    def first_from(self, start: int, stop: int) -> tuple[int, float] | None:
        """The first stamp in these bytes: its offset and its time."""
        while start < stop:
            data = self._content.read_at(start, min(CHUNK, stop - start))
            if not data:
                return None
            for match in _STAMP.finditer(data):
                if bool(match[1]) == self._dated:
                    return start + match.start(), self._read(match)
            # A stamp that the chunk cuts is in the next one whole.
            start += len(data) if len(data) < CHUNK else len(data) - 64
            self._watch_time()
        return None

    def search(self, wanted: float) -> int | None:
        low, high = self._content.floor, self._content.size()
        while high - low > CHUNK:
            middle = (low + high) // 2
            found = self.first_from(middle, high)
            if found is None or found[1] >= wanted:
                high = middle
            else:
                low = found[0] + 1
        size = self._content.size()
        at: int = low
        while (found := self.first_from(at, size)) is not None:
            if found[1] >= wanted:
                return found[0]
            at = found[0] + 1
        return None

    def _read(self, match: re.Match[bytes]) -> float:
        clock = int(match[2]) * 3600.0 + int(match[3]) * 60 + int(match[4])
        if match[1]:
            return _day(match[1].decode().strip()) + clock
        if self._last is not None and clock > self._last:
            clock -= _DAY  # of the day before: a launch takes no longer
        return clock

    def _watch_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise Refused("the time was not found", "the log has long stretches without time stamps")


def _wanted(text: str, first: float, last: float) -> float:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        seconds = float(ago[2]) * _UNITS[ago[3]]
        return last - seconds if ago[1] == "-" else first + seconds
    match = _CLOCK.fullmatch(text)
    assert match is not None
    clock = int(match[2]) * 3600.0 + int(match[3]) * 60 + int(match[4] or 0)
    if match[1]:
        return _day(match[1]) + clock
    midnight = last // _DAY * _DAY
    return midnight + clock if midnight + clock <= last else midnight + clock - _DAY


def _day(text: str) -> float:
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%d")))
    except ValueError:
        return 0.0  # 2026-13-45: of no day at all, hence before all others


def _clock(at: float) -> str:
    if at < _DAY:
        return time.strftime("%H:%M:%S", time.gmtime(at % _DAY))
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
