"""Numbers of a log's generations that go on across agents. Pure.

Each agent counts the generations of a log from when it came. Offsets that a client holds remain good as long as the
file is the same, so what it is shown is numbered anew: another number means another file, and the same the same.
"""

from __future__ import annotations

from dataclasses import replace

from launchmon_agent.events import Log


class Generations:
    """For one log."""

    def __init__(self) -> None:
        self._shift = 0
        self._before: Log | None = None  # as it was when the link was lost, until the next agent has told of it

    def reconnected(self, log: Log | None) -> None:
        """Another agent counts from now on. ``log`` is what was known, in the numbers that were shown."""
        self._before = log

    def of(self, event: Log) -> Log:
        """An agent's event in the numbers that are shown."""
        if self._before is not None:
            same = self._before.file is None or (event.file == self._before.file and event.size >= self._before.size)
            self._shift = self._before.generation + (0 if same else 1) - event.generation
            self._before = None
        return replace(event, generation=self.shown(event.generation))

    def shown(self, generation: int) -> int:
        return generation + self._shift
