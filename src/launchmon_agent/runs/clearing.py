"""Whether the way is free for another attempt: the port before the kill, the GPUs after it. Asks; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Gpus, Run
from launchmon_agent.runs.checks import describe
from launchmon_agent.runs.leftovers import PortWatch
from launchmon_agent.sensors import proc

EARLY_S = 5.0
"""A sample of a launched run within this time is from before its ranks took memory."""

SLACK = 512 << 20
"""Bytes that a GPU may use more than before: drivers and displays take and give a little all the time."""


def refuse_foreign_port(port: int | None, pids: Collection[int]) -> None:
    """Raises :class:`Refused` where a server that is not of the old run (``pids``) listens on the next one's port."""
    if port is None or not PortWatch(port, pids).foreign:
        return
    owner = proc.port_owner(os.getpid(), port)
    who = "a process that this user may not look at" if owner is None else f"process {owner}: {describe(owner)}"
    raise Refused(
        f"Port {port} is held by {who}",
        "it is not of this run, so it is left alone; nothing was ended and nothing started",
        f"launchmon relaunch --add --port={port + 1}",
    )


class GpuLevels:
    """What each GPU used before the run, as far as it can be told."""

    def __init__(self) -> None:
        self._early: dict[int, int] = {}

    def note(self, event: Event, run: Run | None) -> None:
        """To be told every event: the first GPUs of a launched run are from before it took memory."""
        if not isinstance(event, Gpus) or self._early or run is None or not run.launched or run.start_time is None:
            return
        if event.at - run.start_time < EARLY_S:
            self._early = {gpu.index: gpu.memory_used for gpu in event.gpus if gpu.memory_used is not None}

    def before(self, gpus: Gpus | None, pids: Collection[int]) -> dict[int, int]:
        """Index → bytes without the run, by a sample while it is alive. A GPU of which nothing is known is missing."""
        levels = {}
        for gpu in gpus.gpus if gpus else ():
            ours = [process.memory for process in gpu.processes if process.pid in pids and process.memory]
            if ours and gpu.memory_used is not None:
                levels[gpu.index] = max(0, gpu.memory_used - sum(ours))
            elif gpu.index in self._early:
                levels[gpu.index] = self._early[gpu.index]
        return levels


def not_given_back(levels: Mapping[int, int], gpus: Gpus) -> str | None:
    """The GPUs that use more than before, and who is on them; None: all memory is back."""
    held = []
    for gpu in gpus.gpus:
        if gpu.index in levels and gpu.memory_used is not None and gpu.memory_used > levels[gpu.index] + SLACK:
            owners = [f"process {one.pid} ({describe(one.pid, 60)})" for one in gpu.processes]
            more = (gpu.memory_used - levels[gpu.index]) / 2**30
            held.append(
                f"GPU {gpu.index}: {more:.1f} GiB more than before, by {', '.join(owners) or 'nobody that can be seen'}"
            )
    return "; ".join(held) or None
