"""A tmux pane beside launchmon, for the server's own output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from launchmon_agent.errors import Refused
from launchmon_agent.events import Run

SIDE_BY_SIDE = 160
"""Cells of a pane from which each half is still wide enough for launchmon; a narrower one is split top and bottom."""

ANSWER_S = 5.0


def require(environment: Mapping[str, str]) -> None:
    """Raises :class:`Refused` where there is no tmux pane to split."""
    if not environment.get("TMUX") or not environment.get("TMUX_PANE"):
        raise Refused(
            "--split needs tmux, and launchmon does not run inside it",
            "$TMUX or $TMUX_PANE is not set",
            "tmux new launchmon launch --split -- …",
        )
    _tmux("display-message", "-p", "-t", environment["TMUX_PANE"], "#{pane_id}")


def open_beside(run: Run, environment: Mapping[str, str]) -> str:
    """Show the output of this run in a new pane beside this one, which keeps the focus. Raises :class:`Refused`.

    The id of the pane. It stays when the server has ended, with the last that it wrote.
    """
    if run.log is None or run.pid is None or run.start_time is None:
        raise Refused("there is no output to show beside", "the run has no log file of its own")
    here = environment["TMUX_PANE"]
    width = int(_tmux("display-message", "-p", "-t", here, "#{pane_width}"))
    command = [sys.executable, "-m", "launchmon.output", run.log, str(run.pid), repr(run.start_time)]
    pane = _tmux(
        *("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", here),
        "-h" if width >= SIDE_BY_SIDE else "-v",
        *command,
    )
    _tmux("set-option", "-p", "-t", pane, "remain-on-exit", "on")
    _tmux("select-pane", "-t", pane, "-T", f"output of {run.name or run.id}")
    _tmux("select-pane", "-t", here)
    return pane


def _tmux(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["tmux", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused("tmux cannot be asked", str(error), "tmux ls") from None
    if done.returncode:
        raise Refused(f"tmux refused {arguments[0]}", done.stderr.decode("utf-8", "replace").strip())
    return done.stdout.decode("utf-8", "replace").strip()
