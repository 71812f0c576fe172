"""Which of the samples that are taken, or told on change, are worth keeping: not more than one in a while of each kind.

What is told only when it changes must not lose its last state: a sample that came too soon is kept once it is due.
"""

from __future__ import annotations

from launchmon_agent.events import Event, Progress


class Sampling:
    """For one stream of events of the kinds that describe a moment."""

    def __init__(self) -> None:
        self._kept_at: dict[str, float] = {}
        self._waiting: dict[str, Event] = {}

    def take(self, event: Event, every: float) -> bool:
        """Whether to keep this one: the last of its kind that was kept is ``every`` seconds old. Else it waits."""
        key = _key(event)
        if 0 <= event.at - self._kept_at.get(key, float("-inf")) < every:
            self._waiting[key] = event
            return False
        self._waiting.pop(key, None)
        self._kept_at[key] = event.at
        return True

    def due(self, now: float, every: float) -> list[Event]:
        """Those that have waited long enough and that nothing newer has replaced."""
        found = [event for key, event in self._waiting.items() if now - self._kept_at[key] >= every]
        for event in found:
            key = _key(event)
            del self._waiting[key]
            self._kept_at[key] = event.at
        return found


def _key(event: Event) -> str:
    """Bars of different ranks and phases say different things."""
    return f"{event.kind} {event.rank} {event.phase}" if isinstance(event, Progress) else event.kind
