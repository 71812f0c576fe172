"""The first line of every agent and keeper."""

from __future__ import annotations

import getpass
import importlib.util
import os
import platform
import socket
import sys

from launchmon_agent import __version__, codec
from launchmon_agent.machine import boot_id
from launchmon_agent.wire import Hello

WANTED = ("pynvml",)
FOUND = "found="
"""The bootstrap's option with :attr:`Hello.found`."""


def hello(*, keeper: bool = False) -> Hello:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())  # a container user without a passwd entry
    return Hello(
        protocol=codec.PROTOCOL,
        version=__version__,
        pid=os.getpid(),
        hostname=socket.gethostname(),
        user=user,
        python=platform.python_version(),
        interpreter=sys.executable,
        keeper=keeper,
        boot_id=boot_id(),
        missing=tuple(name for name in WANTED if importlib.util.find_spec(name) is None),
        found=next((word[len(FOUND) :] for word in sys.argv[1:] if word.startswith(FOUND)), ""),
    )
