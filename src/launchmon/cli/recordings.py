"""Opening recordings for the verbs that look back."""

from __future__ import annotations

import asyncio
import os

from launchmon.cli.common import open_session
from launchmon.replay.files import read_lines, run_directory
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon_agent.errors import Refused


def names_file(which: str) -> bool:
    """Whether this is a file or directory rather than the id or name of a run."""
    return os.path.exists(os.path.expanduser(which)) or os.sep in which


async def open_recording(which: str) -> ReplaySession:
    """Of the id or name of a run, of a run's directory, or of a file. Raises :class:`Refused`."""
    path = os.path.expanduser(which)
    if not names_file(which):
        return await _of_agent(run=which)
    folder = run_directory(path)
    if folder is not None:
        return await _of_agent(recorded=os.path.abspath(folder))
    lines = await asyncio.to_thread(read_lines, path)
    return ReplaySession(Recorded(lines), os.path.basename(os.path.abspath(path)))


async def _of_agent(**selector: str) -> ReplaySession:
    """The agent sends the recording and goes on reading the log."""
    session = await open_session()
    try:
        await session.attach(**selector)
        return ReplaySession(Recorded(await session.recording()), session.target, session, owns_log=True)
    except Refused:
        await session.close()
        raise
