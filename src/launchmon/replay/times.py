"""A moment of a recording as a person writes it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from launchmon_agent.errors import Refused

_SPAN = re.compile(r"(?P<sign>[+-])?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d+)?)s?)?")
_CLOCK = re.compile(r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2}(?:\.\d+)?))?")


def moment(text: str, begin: float, end: float) -> float:
    """Seconds since the epoch, within ``begin`` … ``end``. Raises :class:`Refused`.

    ``start``, ``end``, ``90``, ``+1m30s`` (from the start), ``-30s`` (before the end), ``18:05:12`` (by this machine's
    clock), or a date with a time.
    """
    word = text.strip().lower()
    if word in ("start", "end"):
        return begin if word == "start" else end
    at = _span(word, begin, end)
    if at is None:
        at = _clock(word, begin, end)
    if at is None:
        at = _date(text.strip())
    if at is None:
        raise Refused(
            f"{text!r} is no time of a recording",
            "times are start, end, 90 or 1m30s (from the start), -30s (before the end), and 18:05:12",
            "launchmon replay RUN --at -30s",
        )
    return max(begin, min(at, end))


def _span(word: str, begin: float, end: float) -> float | None:
    found = _SPAN.fullmatch(word)
    if found is None or not any((found["h"], found["m"], found["s"])):
        return None
    seconds = 3600 * float(found["h"] or 0) + 60 * float(found["m"] or 0) + float(found["s"] or 0)
    return end - seconds if found["sign"] == "-" else begin + seconds


def _clock(word: str, begin: float, end: float) -> float | None:
    """The first such time of day after the beginning; where that lies behind the end, of the first day."""
    found = _CLOCK.fullmatch(word)
    if found is None or int(found["h"]) > 23 or int(found["m"]) > 59:
        return None
    day = datetime.fromtimestamp(begin).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    into = timedelta(hours=int(found["h"]), minutes=int(found["m"]), seconds=float(found["s"] or 0))
    days = (day + timedelta(days=extra) + into for extra in (0, 1))
    at = [one.timestamp() for one in days]
    return next((one for one in at if begin <= one <= end), at[0])


def _date(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
