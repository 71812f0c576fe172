"""Trying remedies one after the other, unattended, until a launch is ready: ``launchmon relaunch --ladder``.

Each attempt is the first one's command with a single remedy, so that the ledger says which of them helps. The remedies
are those of the newest verdict, then what earlier verdicts named; none is tried twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from launchmon.cli.wait import CRASHED, OUTCOMES, READY, STUCK
from launchmon.session import Session
from launchmon_agent.errors import Refused
from launchmon_agent.sglang.flags.change import Change

Say = Callable[[str], None]


@dataclass(frozen=True)
class Climb:
    """How it ended."""

    ready: bool
    reason: str  # a sentence
    change: tuple[str, ...] = ()  # that made it ready


async def climb(session: Session, attempts: int, seconds: float, say: Say) -> Climb:
    """Of the run that the session follows. At most so many relaunches, and none after ``seconds``. Raises Refused."""
    first = session.model.run
    assert first is not None
    back_to = first.id if first.launched else None
    deadline = time.monotonic() + seconds
    known: list[tuple[str, ...]] = []
    tried: set[tuple[str, ...]] = set()
    change: tuple[str, ...] = ()
    for number in range(attempts + 1):
        status = await _decided(session, deadline)
        verdict = session.model.verdict
        if status is None or verdict is None:
            return Climb(False, f"no verdict that decides within {seconds / 60:.0f} minutes", change)
        say(f"{verdict.verdict}: {verdict.summary}")
        if status == READY:
            return Climb(True, "ready", change)
        if number == attempts:
            break
        offered = [tuple(one["change"]) for one in (await session.relaunch_options())["remedies"]]
        known = [*offered, *(one for one in known if one not in offered)]
        found = await _next(session, [one for one in known if one not in tried], tried, back_to, say)
        if found is None:
            return Climb(False, "no remedy is left to try", change)
        change = found
        say(f"relaunch with {', '.join(change)}")
        await session.relaunch(**_arguments(change, back_to))
    return Climb(False, f"not ready after {attempts} relaunches", change)


async def _next(
    session: Session, candidates: list[tuple[str, ...]], tried: set[tuple[str, ...]], back_to: str | None, say: Say
) -> tuple[str, ...] | None:
    """The first remedy that SGLang would take; those that it would not are passed over."""
    for candidate in candidates:
        tried.add(candidate)
        try:
            await session.relaunch_plan(**_arguments(candidate, back_to))
        except Refused as refused:
            say(f"left out {', '.join(candidate)}: {refused.what}")
            continue
        return candidate
    return None


def _arguments(words: tuple[str, ...], back_to: str | None) -> dict[str, object]:
    change = Change.of_words(words)
    return {"add": change.add, "drop": change.drop, "set": change.set, "unset": change.unset, "back_to": back_to}


async def _decided(session: Session, deadline: float) -> int | None:
    """The outcome of the run that is followed; None when the time is up. Raises Refused when the agent is gone."""
    changed = asyncio.Event()
    leave = session.subscribe(changed.set)
    try:
        while True:
            verdict = session.model.verdict
            if session.link.state != "live":
                raise Refused("the agent is gone", session.link.message, "launchmon runs")
            if verdict is not None and session.log_is_read:
                status = OUTCOMES.get(verdict.verdict)
                if status in (READY, CRASHED) or (status == STUCK and verdict.confidence != "low"):
                    return status
            changed.clear()
            try:
                await asyncio.wait_for(changed.wait(), max(0.0, deadline - time.monotonic()))
            except asyncio.TimeoutError:
                return None
    finally:
        leave()
