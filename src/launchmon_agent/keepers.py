"""Starting keepers: for a new run, and for a run whose keeper died. Blocking; for a thread."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from typing import Any

from launchmon_agent import boot
from launchmon_agent.errors import Refused
from launchmon_agent.runs.directory import RunDirectory, RunFile
from launchmon_agent.runs.sockets import answers
from launchmon_agent.sensors import proc

START_S = 30.0
OTHER_S = 5.0
"""How long a keeper that another agent starts may take until it answers."""


def launch(args: dict[str, Any]) -> RunDirectory:
    """Start a keeper, and through it the server. Raises :class:`Refused`; then nothing runs and nothing is left, unless
    the keeper has only taken longer than :data:`START_S`.

    ``args``: ``argv``, and optionally ``env`` (changes; a null removes), ``environ`` (what they change, instead of this
    process's own), ``cwd``, ``name``, ``without`` (preparations), ``anyway`` (whatever was found to speak against it),
    ``while_watched``, ``run`` (fields of ``run.json`` that a relaunch knows), ``notes`` (sentences that the run begins
    with).
    """
    plan_read, plan_write = os.pipe()
    try:
        keeper, status = _spawn("launch", str(plan_read), pass_fds=(plan_read,))
    except OSError:
        os.close(plan_write)
        raise
    finally:
        os.close(plan_read)  # else nobody would be told that the keeper, which has the other, reads no more
    with contextlib.suppress(BrokenPipeError), os.fdopen(plan_write, "w", encoding="utf-8") as pipe:
        json.dump(args, pipe)
    return RunDirectory(_outcome(keeper, status)["directory"])


def ensure(directory: RunDirectory) -> bool:
    """True when a keeper answers for this run, started now if it had to be; False when the run has ended."""
    file = _once_started(directory)
    if file is None or file.server is None:
        return False
    over = not proc.alive(file.server.pid, file.server.start_time)
    if file.keeper is not None and proc.alive(file.keeper.pid, file.keeper.start_time):
        return not over or answered(directory)  # one that is leaving answers no more
    if over:
        return False
    try:
        _outcome(*_spawn("adopt", directory.path))
    except Refused:
        if not _answers_soon(file.socket):
            raise
    return True


def answered(directory: RunDirectory) -> bool:
    """Whether a keeper of this run listens now."""
    file = directory.read()
    return file is not None and file.socket is not None and answers(file.socket)


def _once_started(directory: RunDirectory) -> RunFile | None:
    """``run.json``, which names no server for a moment after it was made."""
    while True:
        file = directory.read()
        if file is None or file.server is not None or not 0 <= time.time() - file.created < OTHER_S:
            return file
        time.sleep(0.05)


def _answers_soon(path: str | None) -> bool:
    """Whether there is a keeper all the same: one that another agent has started at this very moment, or that could not
    write its name into ``run.json``."""
    until = time.monotonic() + OTHER_S
    while path is not None and time.monotonic() < until:
        if answers(path):
            return True
        time.sleep(0.05)
    return False


def _spawn(mode: str, what: str, pass_fds: tuple[int, ...] = ()) -> tuple[subprocess.Popen[bytes], int]:
    status_read, status_write = os.pipe()
    try:
        keeper = boot.spawn("launchmon_agent.keep", [mode, what, str(status_write)], pass_fds=(status_write, *pass_fds))
    except OSError:
        os.close(status_read)
        raise
    finally:
        os.close(status_write)
    return keeper, status_read


def _outcome(keeper: subprocess.Popen[bytes], status: int) -> dict[str, Any]:
    """What the keeper says of its start. Raises :class:`Refused` when it says so, or nothing."""
    said = _read_all(status)
    if said is None:
        raise Refused(
            f"the keeper of this run has not begun within {START_S:g} s",
            "a file system or a Python is slow to answer; should it begin yet, the run is listed",
            "launchmon runs",
        )
    if not said:
        code = keeper.poll()
        raise Refused(
            "the keeper of this run did not begin" + ("" if code is None else f" (status {code})"),
            "a fault in launchmon, or no memory left",
        )
    body: dict[str, Any] = json.loads(said)
    if "refused" in body:
        keeper.wait()
        raise Refused.from_json(body["refused"])
    return body


def _read_all(descriptor: int) -> bytes | None:
    """What the keeper writes until it closes its end; None when it takes longer than START_S."""
    os.set_blocking(descriptor, False)
    until = time.monotonic() + START_S
    out = b""
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        while time.monotonic() < until:
            part = pipe.read(65536)
            if part == b"":
                return out
            if part is None:
                time.sleep(0.01)
            else:
                out += part
    return None
