"""What became of the actions that clients asked for, for a client that was cut off before it was told.

Whoever carries an action out, an agent or a keeper, notes it in a file of its own below the state directory, as
``actions/ID.json``, before it begins and when it is over. ID is the client's, a random one for each action. A client
that comes back asks for it. An action that nobody has begun is crossed out by that very question: should the request
still arrive, late, from a pipe that hung, it is refused. So "not done" stays true.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.runs.directory import make_private, state_root
from launchmon_agent.sensors import proc

KEPT_S = 3600.0
"""Entries older than this are removed when another is made: no client comes back for them."""

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Entry:
    """``state``: doing, done, refused (``value`` is the refusal as JSON) or void (nobody may begin it any more)."""

    state: str
    do: str = ""
    value: Any = None
    pid: int | None = None
    start_time: float | None = None  # of the process that does it

    @property
    def abandoned(self) -> bool:
        """Its process has ended without saying how it went."""
        dead = self.pid is None or self.start_time is None or not proc.alive(self.pid, self.start_time)
        return self.state == "doing" and dead


class Journal:
    """Blocking; for a thread. Constructing it touches nothing."""

    def __init__(self, folder: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder or os.path.join(os.path.dirname(state_root()), "actions")
        self._clock = clock

    def begin(self, action: str, do: str) -> None:
        """Raises :class:`Refused` for an action that was begun or crossed out before; a full disk stops nothing."""
        self._prune()
        entry = {"state": "doing", "do": do, "pid": os.getpid(), "start_time": proc.start_time(os.getpid())}
        try:
            self._create(action, entry)
        except FileExistsError:
            raise Refused(
                f"this {do} was asked for before, and is not repeated", "the request came twice, or too late"
            ) from None
        except OSError:
            return

    def end(self, action: str, do: str, state: str, value: Any) -> None:
        """``value``: JSON. Never raises: then it stays unknown how the action went."""
        path = self._path(action)
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump({"state": state, "do": do, "value": value}, file)
            os.replace(f"{path}.new", path)

    def read(self, action: str) -> Entry | None:
        """The entry; one that is made now, and crossed out, where there was none. None: it cannot be known."""
        try:
            self._create(action, {"state": "void"})
            return Entry("void")
        except FileExistsError:
            pass
        except OSError:
            return None
        try:
            with open(self._path(action), encoding="utf-8") as file:
                return Entry(**json.load(file))
        except (OSError, ValueError, TypeError):
            return None

    def _create(self, action: str, entry: dict[str, Any]) -> None:
        """In one step: nobody sees an entry without its content. Raises FileExistsError and other OSErrors."""
        path = self._path(action)
        scratch = f"{path}.{os.getpid()}.new"
        make_private(self._folder)
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(entry, file)
            os.link(scratch, path)
        finally:
            os.unlink(scratch)

    def _path(self, action: str) -> str:
        if not isinstance(action, str) or not _ID.fullmatch(action):
            raise Refused("an action is named by 32 hexadecimal digits", f"it was named {action!r}")
        return os.path.join(self._folder, f"{action}.json")

    def _prune(self) -> None:
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                with contextlib.suppress(OSError):
                    if self._clock() - entry.stat().st_mtime > KEPT_S:
                        os.unlink(entry.path)
