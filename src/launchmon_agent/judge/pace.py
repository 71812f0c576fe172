"""When the judge is asked again. Pure.

A run that stands still is judged on the same facts each second, and only the seconds in its verdict grow. Once such a
verdict has stood for a while it is enough to look every few seconds, unless something changes in kind: then at once.
"""

from __future__ import annotations

from launchmon_agent.events import Verdict

SETTLED_AFTER_S = 15.0
"""A verdict that has stood for so long has passed the times after which rules are surer."""

SETTLED_EVERY_S = 5.0

RESTLESS = frozenset({"starting", "reading", "downloading", "compiling", "computing", "serving"})
"""Kinds whose verdicts tell rates and numbers, which are new each second."""


class Pace:
    """Of one run. ``stirs`` is :attr:`launchmon_agent.judge.window.EvidenceWindow.stirs`."""

    def __init__(self) -> None:
        self._said: tuple[str, str, tuple[str, ...]] | None = None
        self._said_since = 0.0
        self._judged_at: float | None = None
        self._stirs = -1

    def is_due(self, stirs: int, now: float) -> bool:
        if self._judged_at is None or stirs != self._stirs or not 0 <= now - self._judged_at < SETTLED_EVERY_S:
            return True
        assert self._said is not None
        return self._said[0] in RESTLESS or self._judged_at - self._said_since < SETTLED_AFTER_S

    def judged(self, verdict: Verdict, stirs: int, now: float) -> None:
        """``stirs``: as it was before the judge was asked."""
        said = (verdict.verdict, verdict.confidence, verdict.blames)
        if said != self._said:
            self._said, self._said_since = said, now
        self._judged_at, self._stirs = now, stirs
