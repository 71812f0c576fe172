"""Whose line it is, in SGLang's log."""

from __future__ import annotations

from launchmon_agent.events import LAUNCHER
from launchmon_agent.sglang.prefix import records, strip_control


def owner_of(line: bytes) -> str | None:
    """The rank named first in a line; "launcher" where a prefix names none; None for a line without a prefix.

    With a single rank nothing is tagged, and its lines are the launcher's too. A torch line (``[rank3]:…``) is taken
    for TP3, which is right where TP is the only parallelism of the run.
    """
    if b"[" not in line:
        return None
    stamped = False
    for record in records(strip_control(line)):
        if record.rank is not None:
            return record.rank
        if record.number is not None:
            return f"TP{record.number}"
        stamped = stamped or record.stamp is not None
    return LAUNCHER if stamped else None
