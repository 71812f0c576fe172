"""The first command on a target: ``sh``, which is sent a script that finds a Python and starts the stub with it.

The script (``bootstrap.sh``) looks, in this order, on PATH, in the places where people keep Pythons that PATH may not
show, and then for the interpreter of a running SGLang server. A Python counts when it is 3.10 or newer and has the
parts of the standard library that some builds lack.

The interpreter of a server is run only if the server is ours or the program is: root must not run what somebody else
may have put there. That of a server in a container does not exist outside of it.

What the script found instead is on its stderr, in lines that begin with ``launchmon: ``, and in its exit status.
"""

from __future__ import annotations

import functools
import pkgutil
import re
import shlex
from dataclasses import dataclass

from launchmon_agent.boot import STUB

NO_PYTHON = 97
"""Exit status of the script where there is no Python at all."""
UNFIT_PYTHON = 98
"""… where each Python is too old, or lacks parts of the standard library."""
ELSEWHERE = 99
"""… where the only Python is that of a server which runs in a container, or belongs to somebody else."""

COMMAND = "sh"
"""What is run on a target: one plain word, since nobody knows how often it will be split. ``docker exec`` runs the
words it is given, ``ssh`` joins them by spaces for another shell to split, and a wrapper may do either."""

_FITS = (
    "import sys; from importlib.util import find_spec as f; "
    'sys.exit(sys.version_info < (3, 10) or None in map(f, ("asyncio", "_ctypes", "zlib")))'
)
_SERVERS = ("sglang.launch_server", "sglang::", "sglangserve", "sglang/launch_server", "launchmon.demo.launch_server")
"""What a server's command line holds, or the title that a process of it has taken in its place."""


@functools.cache
def script() -> bytes:
    """What to send to that ``sh`` at once, as its stdin; nothing may follow before the stub has said that it is ready.

    Some shells read ahead, so that what came after would be lost; others read no further than they must, hence the
    braces around it: all of it has been read before any of it is run.
    """
    data = pkgutil.get_data(__package__, "bootstrap.sh")
    assert data is not None
    filled = {
        "stub": shlex.quote(STUB),
        "fits": shlex.quote(_FITS),
        "servers": "|".join(f"*{part}*" for part in _SERVERS),
        "elsewhere": str(ELSEWHERE),
        "unfit": str(UNFIT_PYTHON),
        "none": str(NO_PYTHON),
    }
    lines = (line.strip() for line in data.decode("ascii").splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("#")) + "\n"
    for name, value in filled.items():
        text = text.replace(f"{{{name}}}", value)
    return text.encode("ascii")


@dataclass(frozen=True)
class Looked:
    """What the script found instead of a Python, from what it printed.

    ``unfit``: (path, version) of each Python. ``containers``: (pid, cgroup) of servers. ``foreign``: pids.
    """

    unfit: tuple[tuple[str, str], ...] = ()
    containers: tuple[tuple[int, str], ...] = ()
    foreign: tuple[int, ...] = ()


_LINE = re.compile(r"launchmon: (container|foreign|unfit) ([^=\s]+)(?:=(\S*))?\s*$", re.MULTILINE)


def looked(printed: str) -> Looked:
    """Lines that are not the script's are passed over."""
    found = _LINE.findall(printed)
    return Looked(
        unfit=tuple((what, more) for kind, what, more in found if kind == "unfit"),
        containers=tuple((int(what), more) for kind, what, more in found if kind == "container" and what.isdecimal()),
        foreign=tuple(int(what) for kind, what, _ in found if kind == "foreign" and what.isdecimal()),
    )
