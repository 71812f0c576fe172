"""A process that a kill would end."""

from __future__ import annotations

from typing import NamedTuple


class Victim(NamedTuple):
    pid: int
    role: str
    rank: str | None
    title: str | None
    node: int | None = None  # of a run on several nodes
