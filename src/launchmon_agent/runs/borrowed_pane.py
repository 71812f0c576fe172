"""A tmux pane that shows the old server, kept over the relaunch to show the new one.

Where a shell started the server, the shell's prompt is back once the server has ended, and the command that follows the
log is typed there. Where the server was all that ran in the pane, tmux would close it: the pane is told to remain, and
the command is started in it. A pane that somebody uses for something else by then is left alone.
"""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass

from launchmon_agent import tmux
from launchmon_agent.runs.carrying import tail
from launchmon_agent.runs.outlets import Pane
from launchmon_agent.sensors import proc

PROMPT_S = 5.0
"""How long a shell may take to show its prompt after the server has ended."""

LOOK_S = 0.1

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "tcsh", "csh"})

_FORMAT = "#{pane_dead} #{pane_in_mode} #{pane_pid}"


@dataclass(frozen=True)
class _State:
    dead: bool  # nothing runs in it, and tmux keeps it
    in_mode: bool  # somebody scrolls in it: keys would not reach the shell
    pid: int  # what tmux started in it


class BorrowedPane:
    """:meth:`hold` it before the old server is ended, :meth:`show` the new one, and :meth:`release` it in any case."""

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._held = False
        self._remain: str | None = None  # the pane's own setting of before

    def hold(self, log: str | None, pid: int | None) -> str | None:
        """``log`` and ``pid``: of the old run; None where it has none, or has ended. Returns why it is left alone."""
        state = self._state()
        if state is None:
            return "it is closed"
        if not state.dead and pid is not None and not _shows(state.pid, log, pid):
            return "something else runs in it"
        self._remain = (self._ask("show-options", "-pv", "-t", self._pane.id, "remain-on-exit") or "").strip()
        self._held = self._ask("set-option", "-p", "-t", self._pane.id, "remain-on-exit", "on") is not None
        return None

    def show(self, log: str, pid: int) -> str | None:
        """Follow the log of server ``pid`` in it, once it is free. Returns why that cannot be."""
        command = shlex.join(tail(log, pid))
        deadline = time.monotonic() + PROMPT_S
        while (state := self._state()) is not None:
            if state.dead:
                done = self._ask("respawn-pane", "-t", self._pane.id, f"exec {command}")
                return None if done is not None else "tmux could not start a command in it"
            if _at_prompt(state.pid):
                return self._type(command, state)
            if time.monotonic() > deadline:
                return "something else runs in it"
            time.sleep(LOOK_S)
        return "it is closed"

    def release(self) -> None:
        if self._held and self._remain:
            self._ask("set-option", "-p", "-t", self._pane.id, "remain-on-exit", self._remain)
        elif self._held:
            self._ask("set-option", "-pu", "-t", self._pane.id, "remain-on-exit")
        self._held = False

    def _type(self, command: str, state: _State) -> str | None:
        keys = ["send-keys", "-t", self._pane.id]
        leave = [*keys, "-X", "cancel", ";"] if state.in_mode else []
        # ^U: whatever was typed while the server ran is not to become a part of the command.
        done = self._ask(*leave, *keys, "C-u", ";", *keys, "-l", f" {command}", ";", *keys, "Enter")
        return None if done is not None else "tmux could not type into it"

    def _state(self) -> _State | None:
        parts = (self._ask("display-message", "-p", "-t", self._pane.id, _FORMAT) or "").split()
        if len(parts) != 3 or not all(part.isdigit() for part in parts):
            return None
        return _State(parts[0] != "0", parts[1] != "0", int(parts[2]))

    def _ask(self, *arguments: str) -> str | None:
        return tmux.ask(self._pane.socket, *arguments)


def _shows(root: int, log: str | None, pid: int) -> bool:
    """Whether the server, or what follows its log, is in the foreground of the terminal that ``root`` runs in."""
    leader, row = proc.foreground(root), proc.stat(pid)
    if leader is None:
        return False
    return (row is not None and row.pgrp == leader) or (log is not None and log in proc.cmdline(leader))


def _at_prompt(root: int) -> bool:
    """A shell alone in the foreground waits for a command; what a script runs would be in its process group."""
    leader = proc.foreground(root)
    argv = proc.cmdline(leader) if leader is not None else []
    if not argv or os.path.basename(argv[0]).lstrip("-") not in SHELLS:
        return False
    return [row.pid for row in proc.table().values() if row.pgrp == leader and not row.dead] == [leader]
