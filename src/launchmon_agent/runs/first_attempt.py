"""A run that somebody else started, written down as the first attempt of the series that its relaunch begins.

It has no keeper and so no recording. What the agent that watches it has seen is kept as one, before it is ended.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence

from launchmon_agent.discover import Found
from launchmon_agent.events import Action, Event, Exit, Stacks
from launchmon_agent.runs.directory import ProcessId, RunDirectory, create
from launchmon_agent.runs.outlets import Outlets
from launchmon_agent.runs.recording import Recording


class FirstAttempt:
    """Its directory; made before anything is ended. Raises :class:`Refused` where that cannot be made."""

    def __init__(
        self, found: Found, interpreter: str | None, outlets: Outlets, seen: Iterable[Event], root: str | None = None
    ) -> None:
        """``seen``: all that is known of the run now."""
        self._seen = tuple(seen)
        self.directory: RunDirectory = create(
            found.argv,
            root=root,
            clock=lambda: found.start_time,
            cwd=found.cwd,
            interpreter=interpreter,
            launched=False,
            outlets=outlets,
            server=ProcessId(found.pid, found.start_time),
        )

    def keep(self, seen: Sequence[Event]) -> None:
        """Write the recording; ``seen``: all that is known now, after the run was ended."""
        known = {id(event) for event in self._seen}
        # Not the newest verdict: that is about the end which launchmon brought about.
        ended = [one for one in seen if isinstance(one, (Action, Exit, Stacks)) and id(one) not in known]
        recording = Recording(self.directory, lambda _trouble: None)
        try:
            recording.append(*self._seen, *ended)
        finally:
            recording.close()

    def forget(self) -> None:
        """The run goes on: nothing was ended."""
        shutil.rmtree(self.directory.path, ignore_errors=True)
