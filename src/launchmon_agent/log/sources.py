"""Where a log comes from. Whatever it is, it ends as a file that :class:`launchmon_agent.log.source.LogFile` reads."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Protocol

from launchmon_agent.errors import Refused
from launchmon_agent.log.spool import Spool

ENDING_S = 1.0
"""Seconds that a log command gets to end after TERM: less than an agent has to leave in order
(:data:`launchmon_agent.lifetime.GRACE_S`), or the copy of its output would be left behind."""


class Source(Protocol):
    """``kind``, ``name`` and ``path`` are the run's ``log_source``, ``log`` and the file to read."""

    kind: str
    name: str
    path: str

    @property
    def problem(self) -> str | None:
        """Why nothing more will come, in words; None while all is well."""

    def poll(self, now: float) -> None:
        """Bring the file up to date. Called several times a second; does little at a time."""

    def close(self) -> None:
        """Leave everything as it was found."""


class FileSource:
    """A file that somebody else writes: the server itself (``file``), or the ``tee`` that its output goes through."""

    problem: str | None = None

    def __init__(self, path: str, kind: str = "file") -> None:
        self.kind = kind
        self.name = self.path = path

    def poll(self, now: float) -> None:
        pass

    def close(self) -> None:
        pass


_WRAPPER = """
exec 3<&0 </dev/null
{ trap '' HUP INT TERM; read -r _; kill -KILL 0; } <&3 >/dev/null 2>&1 &
exec sh -c "$1" 3<&-
"""
"""Its input is the lifeline. The shell gives /dev/null to what it starts in the background, hence descriptor 3."""


class CommandSource:
    """The output of a command, ``journalctl -fu sglang`` or a pipeline of several: it is for the shell to read.

    The command runs in a session of its own, and ends with this process, however that ends: a watcher in it waits for
    the end of a pipe that only we hold open.
    """

    kind = "command"

    def __init__(self, command: str, parent: str | None = None) -> None:
        """Starts it. Raises :class:`Refused`."""
        if not command.strip() or "\0" in command:
            raise Refused("no log command was given", "--log-command takes one command line for the shell")
        self.name = command
        self._closed = False
        self._spool = Spool(parent)
        self.path = self._spool.path
        lifeline, self._lifeline = os.pipe2(os.O_CLOEXEC)
        output = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            self._child = subprocess.Popen(
                ["sh", "-c", _WRAPPER, "launchmon-log", command],
                stdin=lifeline,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._lifeline)
            self._spool.remove()
            raise Refused(f"the log command could not be started: {error.strerror}", "", f"sh -c '{command}'") from None
        finally:
            os.close(lifeline)
            os.close(output)

    @property
    def problem(self) -> str | None:
        status = self._child.poll()
        if status is None:
            return None
        how = f"with status {status}" if status >= 0 else f"by {_signal_name(-status)}"
        return f"the log command has ended {how}: nothing more comes from it"

    def poll(self, now: float) -> None:
        pass

    def close(self) -> None:
        """End the command, all of its pipeline, and remove the copy."""
        if self._closed:
            return
        self._closed = True
        self._end_group(signal.SIGTERM)
        try:
            self._child.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._end_group(signal.SIGKILL)
            self._child.wait()
        os.close(self._lifeline)  # the watcher ends, and with it whatever is left of the group
        self._spool.remove()

    def _end_group(self, number: int) -> None:
        # The watcher outlives TERM and holds the group until the lifeline goes, so its number is not another's by now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
