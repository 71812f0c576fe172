"""Carrying a server's output on to the places that it had when somebody started it by hand.

A launched server writes into its run directory, so that nothing else can block it or end it. From there ``tail``
carries its output on to the files and the tmux pane of before. It belongs to nobody: it goes on when keeper and client
are gone, and ends with the server.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from launchmon_agent.output import all_outputs
from launchmon_agent.runs.outlets import Outlets, Pane
from launchmon_agent.sensors import proc


def outlets_of(pid: int) -> Outlets:
    """Of a server that somebody else started, while it lives."""
    files: list[str] = []
    panes: list[Pane] = []
    lost: list[str] = []
    for output in all_outputs(pid):
        if output.path is not None:
            why = _cannot_append(output.path)
            if why is None:
                files.append(output.path)
            else:
                lost.append(why)
        elif output.pane is not None and _in_foreground(pid):
            panes.append(output.pane)
        elif output.pane is not None:
            lost.append(f"it runs in the background of {output.pane.describe()}")
        elif output.note is not None:
            lost.append(output.note.partition("; ")[0])
    return Outlets(tuple(files), panes[0] if panes else None, tuple(lost))


def tail(log: str, pid: int) -> list[str]:
    """The command that prints a log from its beginning for as long as process ``pid`` lives."""
    return ["tail", "-n", "+1", f"--pid={pid}", "-F", log]


def append(files: Sequence[str], log: str, pid: int) -> list[str]:
    """Begin to carry a log on to these files. Returns what went wrong, a sentence each: it harms nothing else."""
    wrong = []
    for path in files:
        try:
            with open(path, "ab") as file:
                process = subprocess.Popen(
                    tail(log, pid),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError as error:
            wrong.append(f"the output is not appended to {path}: {error.strerror or error}")
        else:
            process.returncode = 0  # whoever is its parent by then collects it, not the subprocess module
    return wrong


def _cannot_append(path: str) -> str | None:
    if path.startswith(f"{proc.PROC}/"):
        return "the file that it went to is deleted, or of another container"
    return None if os.access(path, os.W_OK) else f"{path} may not be written by this user"


def _in_foreground(pid: int) -> bool:
    row = proc.stat(pid)
    return row is not None and row.pgrp == proc.foreground(pid)
