"""Tells somebody who is not looking that the verdict has changed: runs a command of theirs."""

from __future__ import annotations

import os
import subprocess

from launchmon.cluster.session import AnySession
from launchmon_agent.events import Verdict


class VerdictCommand:
    """Runs ``command`` by the shell at each new kind of verdict, without waiting for it, nor for one before it.

    Its environment has ``LAUNCHMON_VERDICT`` (the kind), ``LAUNCHMON_CONFIDENCE``, ``LAUNCHMON_SUMMARY`` and
    ``LAUNCHMON_RUN`` (the run's id): text from the log can be in the summary, so none of it is put into the command.
    """

    def __init__(self, session: AnySession, command: str) -> None:
        self._session = session
        self._command = command
        self._kind: str | None = None
        self._running: list[subprocess.Popen[bytes]] = []
        session.subscribe(self._look)

    def _look(self) -> None:
        verdict = self._session.model.verdict
        if verdict is None or verdict.verdict == self._kind:
            return
        self._kind = verdict.verdict
        self._running = [child for child in self._running if child.poll() is None]
        self._running.append(self._start(verdict))

    def _start(self, verdict: Verdict) -> subprocess.Popen[bytes]:
        run = self._session.model.run
        about = {
            "LAUNCHMON_VERDICT": verdict.verdict,
            "LAUNCHMON_CONFIDENCE": verdict.confidence,
            "LAUNCHMON_SUMMARY": verdict.summary.replace("\0", ""),
            "LAUNCHMON_RUN": run.id if run else "",
        }
        return subprocess.Popen(
            ["sh", "-c", self._command],
            env={**os.environ, **about},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
