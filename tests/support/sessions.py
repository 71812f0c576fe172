"""The processes of a session of the kernel (``setsid``), which SGLang never leaves."""

from __future__ import annotations

import contextlib
import os
import signal

from launchmon_agent.sensors import proc


def session_members(session: int) -> list[proc.Stat]:
    """Orphans included, in the order in which they were started."""
    members = (row for row in proc.table().values() if row.session == session)
    return sorted(members, key=lambda row: (row.start_ticks, row.pid))


def end_session(session: int) -> None:
    """Kill what lives in it. Once its first process was waited for, its number may be another session's: what belongs
    to the tests of another worker, by the directory that each has for its state, is left alone."""
    own = os.environ.get("XDG_STATE_HOME")
    for row in session_members(session):
        if not row.dead and (proc.environ(row.pid) or {}).get("XDG_STATE_HOME", own) == own:
            with contextlib.suppress(ProcessLookupError):  # ranks follow their launcher by themselves
                os.kill(row.pid, signal.SIGKILL)
