"""What ``launchmon doctor`` says of one thing that launchmon can use: there, there in part, or not at all. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

OK, LESS, BROKEN = "ok", "less", "broken"
STATES = (OK, LESS, BROKEN)
"""ok: as it should be. less: something is shown or done without it. broken: something that a person may want cannot
work."""


@dataclass(frozen=True)
class Capability:
    """``id`` is stable. ``cost`` and ``try_`` (one command or step that helps) are empty where all is well."""

    id: str
    state: str  # one of STATES
    found: str  # how it is
    cost: str = ""  # what it costs that it is not better
    try_: str = ""

    def as_json(self) -> dict[str, Any]:
        body = asdict(self)
        body["try"] = body.pop("try_")
        return body


def worst(states: Iterable[str]) -> str:
    """Of nothing: ok."""
    return max(states, key=STATES.index, default=OK)
