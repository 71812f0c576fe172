"""Starts the fake servers of ``tests/support/fakes`` and cleans up after them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from launchmon_agent.sensors import proc
from tests.support.sessions import end_session

FAKES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fakes")


def command(*flags: str, port: int) -> list[str]:
    return [sys.executable, "-m", "sglang.launch_server", "--model-path", "org/tiny", "--port", str(port), *flags]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": FAKES}


def titles(session: int) -> list[str]:
    """Titles of the living processes of a session."""
    rows = [row for row in proc.table().values() if row.session == session and not row.dead]
    return [(proc.cmdline(row.pid) or [""])[0] for row in rows]


@contextmanager
def session_of(*argv: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a session of its own; at the end everything in that session is killed."""
    process = subprocess.Popen(
        argv,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        **{"env": environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options},
    )
    try:
        proc.wait_for_exec(process.pid)
        yield process
    finally:
        end_session(process.pid)
        process.kill()
        process.wait()
