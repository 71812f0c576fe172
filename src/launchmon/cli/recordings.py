"""Opening recordings for the verbs that look back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from launchmon.cli.common import open_session
from launchmon.cluster.reading import node_by_node
from launchmon.cluster.session import AnySession
from launchmon.connect import Asker
from launchmon.connect.target import LOCAL, Target
from launchmon.replay.files import read_lines, run_directory
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon_agent.errors import Refused


def names_file(which: str) -> bool:
    """Whether this is a file or directory rather than the id or name of a run."""
    return os.path.exists(os.path.expanduser(which)) or os.sep in which


async def open_recording(
    which: str, asker: Asker | None = None, where: Sequence[Target] | None = None
) -> ReplaySession:
    """Of the id or name of a run, of a run's directory, or of a file. Raises :class:`Refused`.

    ``where`` a run is, in place of the targets that were named.
    """
    path = os.path.expanduser(which)
    if not names_file(which):
        return await _of_agent(await open_session(asker=asker, where=where), run=which)
    folder = run_directory(path)
    if folder is not None:
        return await _of_agent(await open_session(where=(LOCAL,)), recorded=os.path.abspath(folder))
    lines = await asyncio.to_thread(read_lines, path)
    return ReplaySession(Recorded(lines), os.path.basename(os.path.abspath(path)))


async def _of_agent(session: AnySession, **selector: str) -> ReplaySession:
    """The agent sends the recording and goes on reading the log."""
    try:
        if session.nodes:
            raise node_by_node()
        await session.attach(**selector)
        recorded = await asyncio.to_thread(Recorded, await session.recording())
        return ReplaySession(recorded, session.target, session, owns_log=True)
    except Refused:
        await session.close()
        raise
