"""The processes of a session of the kernel (``setsid``), which SGLang never leaves."""

from __future__ import annotations

from launchmon_agent.sensors import proc


def session_members(session: int) -> list[proc.Stat]:
    """Orphans included, in the order in which they were started."""
    members = (row for row in proc.table().values() if row.session == session)
    return sorted(members, key=lambda row: (row.start_ticks, row.pid))
