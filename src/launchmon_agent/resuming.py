"""What a client asks that lost its link, after it has found its way back: is the run still there, what did I miss.

Blocking; for a thread.
"""

from __future__ import annotations

import os
from typing import Any

from launchmon_agent.events import Event
from launchmon_agent.runs.directory import RunDirectory, state_root
from launchmon_agent.runs.recording import samples_since
from launchmon_agent.samples import HISTORY
from launchmon_agent.sensors import proc

HELD = ("gpus", "processes")
"""Kinds of samples of which a model keeps a history."""


def gone(args: dict[str, Any]) -> str | None:
    """Why the run that was followed is there no more, in words; None where it is.

    ``args``: ``run`` (the id of a launched one), ``pid`` with ``start_time``; or ``recorded``, a directory that is
    looked back at, whose run is never gone. A launched run is there when its files are, whether or not the server
    lives.
    """
    if args.get("recorded") is not None:
        return None
    place = None if args.get("run") is None else _directory(args)
    if place is not None and place.read():
        return None
    why = "no such run any more" if place is None else f"no such run any more: {place.path} was removed"
    pid, start_time = args.get("pid"), args.get("start_time")
    if not isinstance(pid, int) or not isinstance(start_time, (int, float)):
        return why
    if proc.alive(pid, start_time):
        return None if place is None else f"{why}; the server goes on: launchmon attach --pid {pid}"
    if place is not None:
        return why
    other = proc.start_time(pid) is not None and not proc.same_process(pid, start_time)
    return f"the server (process {pid}) ended while the link was down" + (
        ": another process has its number now" if other else ""
    )


def missed(args: dict[str, Any]) -> list[Event]:
    """The samples after ``since`` (target's time) of which a model keeps a history, oldest first.

    ``args``: ``run``, as of :func:`gone`, and ``since``. At most as many of a kind as the model keeps. Empty where
    nothing is recorded, or nothing was seen before.
    """
    since = args.get("since")
    if args.get("run") is None or not isinstance(since, (int, float)):
        return []
    place = _directory(args)
    samples = [one for kind in HELD for one in samples_since(place, kind, since, HISTORY)]
    return sorted(samples, key=lambda sample: sample.at)


def _directory(args: dict[str, Any]) -> RunDirectory:
    return RunDirectory(os.path.join(state_root(), os.path.basename(str(args["run"]))))
