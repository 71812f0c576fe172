"""The ledger of a series, from the directories of its runs. Blocking; for a thread."""

from __future__ import annotations

import time

from launchmon_agent.errors import Refused
from launchmon_agent.runs import directory as directories
from launchmon_agent.runs.directory import RunFile
from launchmon_agent.runs.ledger import Ledger, attempt_of, ledger
from launchmon_agent.runs.recording import happenings
from launchmon_agent.sensors import proc


def ledger_of(name: str) -> Ledger:
    """``name``: a series, or any run of it. Raises :class:`Refused`."""
    place = directories.find(name)
    file = None if place is None else place.read()
    if file is None:
        raise Refused(f"there is no run or series {name}", "it was removed, or is of another machine", "launchmon runs")
    series = file.series or file.id
    now = time.time()
    files: list[RunFile] = []
    attempts = []
    for found, one in directories.runs():
        if (one.series or one.id) == series:
            files.append(one)
            alive = one.server is not None and proc.alive(one.server.pid, one.server.start_time)
            attempts.append(attempt_of(one, happenings(found), now, alive=alive))
    return ledger(series, files, attempts)
