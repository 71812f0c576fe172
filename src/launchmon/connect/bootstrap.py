"""The first command on a target: finds a Python and starts the stub with it."""

from __future__ import annotations

import shlex

from launchmon_agent.boot import STUB

NO_PYTHON = 97
"""Exit status of the command where no Python is new enough."""

SCRIPT = (
    "for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do "
    'command -v "$p" >/dev/null 2>&1 && "$p" -c "import sys; sys.exit(sys.version_info < (3, 10))" >/dev/null 2>&1 '
    '&& exec "$p" -c "$1"; '
    "done; "
    f"exit {NO_PYTHON}"
)
"""For ``sh -c SCRIPT launchmon STUB``: one line without single quotes, as :data:`STUB` is and for the same reason."""


def words() -> list[str]:
    """The command, word by word."""
    return ["sh", "-c", SCRIPT, "launchmon", STUB]


def line() -> str:
    """The command as one line that sh, bash, zsh, fish and csh all take for the same words."""
    return f"exec {shlex.join(words())}"
