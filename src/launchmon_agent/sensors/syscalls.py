"""Names of the system calls in which a server's processes wait."""

from __future__ import annotations

import functools
import os

from launchmon_agent.sensors.tables import rows

_COLUMNS = {"x86_64": 1, "aarch64": 2}


@functools.cache
def _table(machine: str) -> dict[int, str]:
    column = _COLUMNS.get(machine)
    if column is None:
        return {}
    return {int(row[column]): row[0] for row in rows("syscalls.table", 3) if row[column] != "-"}


def syscall_name(number: int | None, machine: str | None = None) -> str | None:
    """None for what is not in the table, and on machines that it does not cover. ``machine``: this one's by default."""
    return None if number is None else _table(machine or os.uname().machine).get(number)
