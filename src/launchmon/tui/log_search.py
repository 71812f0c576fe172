"""The search of a log panel: what is looked for, and how many lines have it. No widgets."""

from __future__ import annotations

from collections.abc import Callable

from launchmon.session_like import SessionLike
from launchmon.tui.log_tally import Tally
from launchmon_agent.errors import Refused
from launchmon_agent.log.only import EVERYTHING, Only


class Search:
    """One search at a time; a new one takes the place of the one before, and of its count."""

    def __init__(self, session: SessionLike, changed: Callable[[], None]) -> None:
        self.pattern = ""
        self.regex = False
        self._session = session
        self._changed = changed
        self._tally: Tally | None = None
        self._failed = False
        self.begin("", False, EVERYTHING)

    def begin(self, pattern: str, regex: bool, only: Only) -> None:
        """Look for this from now on, among the lines that ``only`` leaves."""
        self.pattern, self.regex, self._failed = pattern, regex, False
        self._tally = Tally(self._session, pattern, regex, only, self._changed) if pattern else None

    def forget(self) -> None:
        self.begin("", False, EVERYTHING)

    @property
    def told(self) -> str:
        """``/error 3 of 128``; empty when nothing is searched."""
        if self._tally is None:
            return ""
        return f"/{self.pattern}" if self._failed else f"/{self.pattern} {self._tally}"

    @property
    def job(self) -> object:
        """Changes with every search: what is counted for another one is of no use any more."""
        return self._tally

    def stand_on(self, current: int | None) -> None:
        """Which line the search has arrived at; the next slice of the count tells its place."""
        if self._tally is not None:
            self._tally.current = current

    async def count(self) -> None:
        """Count on to the end of the log as it is now.

        A count that fails leaves the search as it is: what the search itself says of its pattern is shown.
        """
        tally = self._tally
        if tally is None or self._failed:
            return
        try:
            await tally.run()
        except (Refused, ConnectionError, OSError):
            self._failed = tally is self._tally
        self._changed()
