"""What the home screen lists: runs that were found, and other machines. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Found:
    """A run that can be attached to, as the home screen lists it."""

    label: str
    selector: Any  # what the caller needs to open it; the TUI hands it back untouched
    model: str | None = None
    tp: int | None = None
    port: int | None = None
    phase: str | None = None  # phase name, "ready", or how it ended
    alive: bool = True
    launched: bool = False  # by launchmon
    pid: int | None = None
    age_s: float | None = None  # since its start
    target: str | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class Place:
    """Another machine, as the home screen lists it: runs may be there."""

    label: str
    selector: Any  # what the caller needs to look there; the TUI hands it back untouched
    note: str = ""  # why it is listed
