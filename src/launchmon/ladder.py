"""The ladder: tries remedies one after the other, unattended, until a launch is ready.

Each attempt is the first one's command with a single remedy, so that the ledger says which of them helps. The remedies
are those of the newest verdict, then what earlier verdicts named; none is tried twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from launchmon.outcome import READY, decided
from launchmon.session_like import SessionLike
from launchmon_agent.errors import Refused
from launchmon_agent.sglang.flags.change import Change

ATTEMPTS = 5
"""Relaunches at most."""

MINUTES = 120.0
"""After so long none is begun."""

Remedy = tuple[str, ...]
"""The words of a change, as :meth:`Change.of_words` reads them."""


@dataclass(frozen=True)
class Climb:
    """How it ended."""

    ready: bool
    reason: str  # a sentence
    change: Remedy = ()  # of the last attempt

    @property
    def words(self) -> str:
        return f"{self.reason} with {', '.join(self.change)}" if self.ready and self.change else self.reason


class Ladder:
    """Climbs on the run that a session follows, as often as it is asked to, one climb at a time."""

    def __init__(self, session: SessionLike, say: Callable[[str], None] = lambda _text: None) -> None:
        """``say`` is told each step when it begins."""
        self._session = session
        self._say = say
        self._stop = asyncio.Event()
        self._began = 0.0  # monotonic
        self.climbing = False
        self.relaunching = False
        self.said: list[tuple[float, str]] = []  # of the last climb: seconds since its beginning, step
        self.end: Climb | None = None  # of the last climb

    def stop(self) -> None:
        """Let a climb begin nothing more. A relaunch that is under way is carried through, and its run goes on."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        return self.climbing and self._stop.is_set()

    async def climb(self, attempts: int = ATTEMPTS, seconds: float = MINUTES * 60) -> Climb:
        """At most so many relaunches, and none after ``seconds``. Raises :class:`Refused`."""
        if self.climbing:
            raise Refused("the ladder is being climbed already", "one climb at a time")
        self.climbing, self.said, self.end = True, [], None
        self._began = time.monotonic()
        self._stop.clear()
        try:
            self.end = await self._climb(attempts, seconds)
        except Refused as refused:
            self.end = Climb(False, ": ".join(part for part in (refused.what, refused.cause) if part))
            raise
        finally:
            self.climbing = False
        return self.end

    async def _climb(self, attempts: int, seconds: float) -> Climb:
        first = self._session.model.run
        assert first is not None
        back_to = first.id if first.launched else None
        known: list[Remedy] = []
        tried: set[Remedy] = set()
        change: Remedy = ()
        for number in range(attempts + 1):
            outcome = await self._decided(seconds)
            if self._stop.is_set():
                return Climb(False, "stopped", change)
            verdict = self._session.model.verdict
            if outcome is None or verdict is None:
                return Climb(False, f"no verdict that decides within {seconds / 60:.0f} minutes", change)
            self._tell(f"{verdict.verdict}: {verdict.summary}")
            if outcome == READY:
                return Climb(True, "ready", change)
            if number == attempts:
                break
            await self._session.back()
            offered = [tuple(one["change"]) for one in (await self._session.relaunch_options())["remedies"]]
            known = [*offered, *(one for one in known if one not in offered)]
            found = await self._next([one for one in known if one not in tried], tried, back_to)
            if found is None:
                return Climb(False, "no remedy is left to try", change)
            if self._stop.is_set():
                return Climb(False, "stopped", change)
            change = found
            self._tell(f"relaunch with {', '.join(change)}")
            self.relaunching = True
            try:
                run = await self._session.relaunch(**_arguments(change, back_to))
            finally:
                self.relaunching = False
            back_to = back_to or run.parent  # a run that launchmon had not launched has a name by now
        return Climb(False, f"not ready after {attempts} relaunches", change)

    async def _next(self, candidates: list[Remedy], tried: set[Remedy], back_to: str | None) -> Remedy | None:
        """The first remedy that SGLang would take; those that it would not are passed over."""
        for candidate in candidates:
            tried.add(candidate)
            try:
                await self._session.relaunch_plan(**_arguments(candidate, back_to))
            except Refused as refused:
                self._tell(f"left out {', '.join(candidate)}: {refused.what}")
                continue
            return candidate
        return None

    async def _decided(self, seconds: float) -> int | None:
        """The outcome of the run that is followed; None when the time is up, or the climb is to stop."""
        waiting = [asyncio.create_task(decided(self._session)), asyncio.create_task(self._stop.wait())]
        try:
            left = max(0.0, self._began + seconds - time.monotonic())
            await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return waiting[0].result() if waiting[0].done() else None
        finally:
            for task in waiting:
                task.cancel()

    def _tell(self, text: str) -> None:
        self.said.append((time.monotonic() - self._began, text))
        self._say(text)


def _arguments(words: Remedy, back_to: str | None) -> dict[str, Any]:
    change = Change.of_words(words)
    return {"add": change.add, "drop": change.drop, "set": change.set, "unset": change.unset, "back_to": back_to}
