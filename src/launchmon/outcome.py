"""How a launch went: the verdicts that decide it, and waiting for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from launchmon.session_like import LinkLike, ModelLike
from launchmon_agent.errors import Refused

READY, STUCK, CRASHED = 0, 3, 4
"""Exit statuses of the verbs that wait."""

OUTCOMES = {
    "ready": READY,
    "serving": READY,
    "deadlock-silent": STUCK,
    "deadlock-spinning": STUCK,
    "deadlock-divergent": STUCK,
    "rank-missing": STUCK,
    "waiting-lock": STUCK,
    "hung-serving": STUCK,
    "crashed": CRASHED,
    "stopped": CRASHED,
}
"""Verdicts that decide → outcome. With low confidence none of the stuck ones does: it may still move."""


class Watched(Protocol):
    """What is needed of a session."""

    @property
    def model(self) -> ModelLike: ...
    @property
    def link(self) -> LinkLike: ...
    @property
    def log_is_read(self) -> bool: ...
    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]: ...


def outcome(session: Watched) -> int | None:
    """That of the run that is followed, as far as it is known; None while it is open."""
    verdict = session.model.verdict
    if verdict is None or not session.log_is_read:
        return None
    found = OUTCOMES.get(verdict.verdict)
    return None if found == STUCK and verdict.confidence == "low" else found


async def decided(session: Watched) -> int:
    """The outcome, once there is one. Raises :class:`Refused` when the agent is gone."""
    changed = asyncio.Event()
    leave = session.subscribe(changed.set)
    try:
        while (found := outcome(session)) is None:
            if session.link.state == "ended":
                raise Refused("the run is not followed any more", session.link.message, "launchmon runs")
            changed.clear()
            await changed.wait()
        return found
    finally:
        leave()
