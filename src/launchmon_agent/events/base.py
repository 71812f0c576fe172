"""What every event is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

LAUNCHER = "launcher"
"""The ``rank`` of marks and errors that belong to the launcher rather than to a scheduler."""


@dataclass(frozen=True)
class Event:
    kind: ClassVar[str] = ""
    at: float


@dataclass(frozen=True)
class Other(Event):
    """An event of a kind that this version does not know. Kept whole, shown nowhere."""

    kind: ClassVar[str] = "other"
    original: dict[str, Any] = field(default_factory=dict)
