"""What is new in a log, waited for in the log's own thread: a look that finds nothing wakes nobody else."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from launchmon_agent.events import Event, Log
from launchmon_agent.sources import LogSource

PAUSES = ((30.0, 0.5), (5.0, 0.25), (0.0, 0.1))
"""Seconds of silence → seconds between two looks at the log."""

LONGEST_S = 2.0
"""After so long without anything new :meth:`LogNews.wait` returns: a thread in it would hold up the end of a program
that does not know of it."""


class LogNews:
    """Of one log. :meth:`wait` is for the log's thread, the others are for any."""

    def __init__(self, log: LogSource, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._wanted = threading.Event()
        self._grown_at: float | None = None

    def wait(self) -> list[Event]:
        """Look until there is something new, and return it: empty after :data:`LONGEST_S`, and when disturbed."""
        end = time.monotonic() + LONGEST_S
        while True:
            if not self._log.behind and self._wanted.wait(self._pause()):
                self._wanted.clear()
                return []
            found = self._log.poll(self._clock())
            self._grown_at = next((one.grown_at for one in reversed(found) if isinstance(one, Log)), self._grown_at)
            if found or self._log.behind or time.monotonic() >= end:
                return found

    def disturb(self) -> None:
        """Somebody else needs the thread: the present or the next waiting ends at once."""
        self._wanted.set()

    def _pause(self) -> float:
        quiet_s = math.inf if self._grown_at is None else max(0.0, self._clock() - self._grown_at)
        return next(pause for after, pause in PAUSES if quiet_s >= after)
