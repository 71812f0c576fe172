"""What preflight says: one thing each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)
"""error: this launch will fail. warning: it may fail or hang by this. note: worth knowing if it does."""


@dataclass(frozen=True)
class Finding:
    """``what`` is so, ``why`` it matters, and one thing to ``try_`` (or "")."""

    id: str
    severity: str  # one of SEVERITIES
    what: str
    why: str = ""
    try_: str = ""

    def as_json(self) -> dict[str, Any]:
        body = asdict(self)
        body["try"] = body.pop("try_")
        return body
