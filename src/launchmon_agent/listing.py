"""Runs on this machine, launched and discovered, and the choice of one. Blocking; for a thread."""

from __future__ import annotations

from typing import Any

from launchmon_agent.discover import Found, discover, select
from launchmon_agent.errors import Refused
from launchmon_agent.redaction import redacted_object
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import RunDirectory, RunFile
from launchmon_agent.runs.recording import last_verdict
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.command import parse


def runs_here() -> list[dict[str, Any]]:
    """Launched runs newest first, then servers that somebody else started."""
    found = discover()
    launched = [_launched(place, file) for place, file in directory.runs()]
    return launched + [_foreign(run) for run in found if run.run_id is None]


def choose(args: dict[str, Any]) -> RunDirectory | Found:
    """The run that the selectors name. Raises :class:`Refused` with the candidates when that is none or several."""
    name = args.get("run")
    if name is not None:
        place = directory.find(name)
        if place is not None:
            return _here(place)
    chosen = select(discover(), run=name, pid=args.get("pid"), port=args.get("port"), tmux=args.get("tmux"))
    if chosen.run_id is not None:
        place = directory.find(chosen.run_id)
        if place is not None:
            return place
    return chosen


def _here(place: RunDirectory) -> RunDirectory:
    """Raises :class:`Refused` for a run of another machine, of which nothing can be seen from here."""
    file = place.read()
    host = None if file is None else directory.elsewhere(file)
    if host is not None:
        raise Refused(
            f"the run {place.id} is on {host}",
            "this machine shares the directory of runs with it, and sees none of its processes",
            f"launchmon attach --on {host} {place.id}",
        )
    return place


def _launched(place: RunDirectory, file: RunFile) -> dict[str, Any]:
    command = parse(file.argv)
    host = directory.elsewhere(file)
    alive = file.server is not None and proc.alive(file.server.pid, file.server.start_time)
    verdict = last_verdict(place)
    row = {
        "id": place.id,
        "name": file.name,
        "launched": file.launched,
        "state": "elsewhere" if host else "running" if alive else "ended",
        "host": host,
        "verdict": verdict.verdict if verdict else None,
        "pid": file.server.pid if file.server else None,
        "started": file.created,
        "argv": file.argv,
        "model": command.model,
        "tp": command.tp,
        "pp": command.pp,
        "dp": command.dp,
        "port": command.port,
        "log": place.log,
        "log_source": "file",
        "simulated": command.simulated,
        "series": file.series or place.id,
        "attempt": file.attempt,
        "parent": file.parent,
        "change": file.change,
    }
    return redacted_object(row)


def _foreign(run: Found) -> dict[str, Any]:
    command = parse(run.argv)
    row = {
        "id": None,
        "name": None,
        "launched": False,
        "state": "running",
        "host": None,
        "verdict": None,
        "pid": run.pid,
        "started": run.start_time,
        "argv": run.argv,
        "model": command.model,
        "tp": command.tp,
        "pp": command.pp,
        "dp": command.dp,
        "port": command.port,
        "log": run.log,
        "log_source": run.log_source,
        "simulated": command.simulated,
        "series": None,
        "attempt": None,
        "parent": None,
        "change": (),
    }
    return redacted_object(row)
