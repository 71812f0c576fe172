"""The targets that a session was opened on, newest first: to be found again on the home screen."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchmon.connect import target
from launchmon.connect.target import Target
from launchmon_agent.errors import Refused

MOST = 20
MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class Recent:
    """``at``: seconds since the epoch of the last time."""

    target: Target
    at: float


def path(environment: Mapping[str, str] = os.environ) -> str:
    """``$XDG_STATE_HOME/launchmon/targets.json``."""
    home = environment.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser("~/.local/state")
    return os.path.join(home, "launchmon", "targets.json")


def remember(where: Target, environment: Mapping[str, str] = os.environ) -> None:
    """Put a target first. This machine is not one to be found again, nor is a node of a job, which ends.

    A file that cannot be written is gone without.
    """
    if where.kind == "local" or where.job is not None:
        return
    others = [recent for recent in load(environment) if recent.target != where]
    rows = [
        {"kind": recent.target.kind, "spec": recent.target.spec, "at": recent.at}
        for recent in (Recent(where, time.time()), *others)
    ]
    file = path(environment)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix=".targets-", dir=os.path.dirname(file))  # 0600
        try:
            with open(descriptor, "w", encoding="utf-8") as out:
                json.dump(rows[:MOST], out)
            os.replace(draft, file)
        except OSError:
            os.unlink(draft)  # a full disk is not filled further
            raise


def load(environment: Mapping[str, str] = os.environ) -> list[Recent]:
    """Newest first. What cannot be understood is passed over."""
    try:
        with open(path(environment), encoding="utf-8") as file:
            rows = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    found = (_recent(row) for row in rows) if isinstance(rows, list) else ()
    return [recent for recent in found if recent is not None][:MOST]


def _recent(row: Any) -> Recent | None:
    kinds = {"ssh": target.ssh, "via": target.via}
    match row:
        case {"kind": "ssh" | "via" as kind, "spec": str(spec), "at": int() | float() as at}:
            try:
                return Recent(kinds[kind](spec), float(at))
            except Refused:
                return None
    return None
