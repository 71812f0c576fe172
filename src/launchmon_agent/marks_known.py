"""Which marks a model has taken in, so that one who is told them again does not count them twice. Pure."""

from __future__ import annotations

from launchmon_agent.events import Mark

SAME_S = 120.0
"""The same line, read by another agent, may get another time where it bears none of its own."""

_Key = tuple[str, str, str, int]


class KnownMarks:
    """A mark is known by its place in the log, and by its time: after a rotation the same place is another line."""

    def __init__(self) -> None:
        self._here: dict[_Key, float] = {}  # of the log as it is now → time
        self._before: set[tuple[_Key, float]] = set()  # of what it was before it was replaced

    def take(self, mark: Mark) -> bool:
        """False where it was known."""
        key = (mark.id, mark.what, mark.rank, mark.offset)
        if (key, mark.at) in self._before or abs(self._here.get(key, float("-inf")) - mark.at) <= SAME_S:
            return False
        self._here[key] = mark.at
        return True

    def log_replaced(self) -> None:
        """Offsets begin again: what is known now is known by its time alone."""
        self._before.update(self._here.items())
        self._here.clear()
