"""A rank of an earlier launch whose launcher is dead, as a real process that listens on a port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from launchmon_agent.sensors.orphans import KEEPER_COMM
from tests.support import fake_servers

_PROGRAM = """
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None)
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
libc.prctl(36, 1, 0, 0, 0)
middle = os.fork()
if not middle:
    libc.prctl(15, b"python", 0, 0, 0)
    if not os.fork():
        import setproctitle
        listener = socket.create_server(("127.0.0.1", 0))
        setproctitle.setproctitle(sys.argv[2])
        print(os.getpid(), listener.getsockname()[1], flush=True)
        time.sleep(600)
    if sys.argv[3] == "dies":
        os._exit(0)
    time.sleep(600)
if sys.argv[3] == "dies":
    os.waitpid(middle, 0)
time.sleep(600)
"""


@contextmanager
def rank(
    title: str = "sglang::scheduler_TP3", parent: str = "dies", keeper: str = KEEPER_COMM
) -> Iterator[tuple[int, int]]:
    """Its pid and port. ``parent`` dies or lives; who adopts it is called ``keeper``."""
    with fake_servers.session_of(
        sys.executable, "-c", _PROGRAM, keeper, title, parent, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pid, port = process.stdout.readline().split()
        yield int(pid), int(port)
