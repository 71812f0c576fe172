"""Which Python a process runs, without asking it: py-spy's JSON does not say."""

from __future__ import annotations

import os
import re

from launchmon_agent.sensors import proc

_NAME = re.compile(r"(?:lib)?python(3\.\d+)")


def version(pid: int) -> str | None:
    """``"3.11"``; by the name of the program file, else of its library. None: not to be seen, or no Python."""
    try:
        program = os.path.basename(os.readlink(f"{proc.PROC}/{pid}/exe"))
    except OSError:
        program = ""
    found = _NAME.match(program)
    if found is None:
        maps = (proc.read(f"{proc.PROC}/{pid}/maps") or b"").decode("utf-8", "replace")
        found = re.search(r"/libpython(3\.\d+)", maps)
    return None if found is None else found[1]
