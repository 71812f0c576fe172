"""How the agent's code reaches the machine it runs on, and how it starts a second process from the same code.

The client starts any Python with :data:`STUB`, which reads a line with a length and then that many bytes of zip from
stdin into a memfd and imports the agent from there: no file is left on the target. The client sends nothing more until
the hello has come, so nothing is lost in the stub's read buffer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

STUB = (
    "import os,sys\n"
    "i=sys.stdin.buffer\n"
    "z=i.read(int(i.readline()))\n"
    "f=os.memfd_create('launchmon-agent')\n"
    "o=os.fdopen(os.dup(f),'wb')\n"
    "o.write(z)\n"
    "o.close()\n"
    "sys.path.insert(0,'/proc/self/fd/%d'%f)\n"
    "from launchmon_agent.serve import main\n"
    "main()\n"
)
"""Python source for ``python3 -c``; needs Linux and Python 3.10."""

_AGAIN = "import sys;sys.path.insert(0,sys.argv.pop(1));from {module} import main;main(sys.argv[1:])"


def code_root() -> str:
    """The ``sys.path`` entry that this package was imported from: a directory or a zip."""
    package = os.path.dirname(__file__)
    return os.path.dirname(package)


def spawn(module: str, args: Sequence[str], *, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start ``module.main(args)`` in a session of its own from the code that runs here.

    stdin, stdout and stderr are ``/dev/null``. A memfd that holds the code is handed on under its own number.
    """
    root = code_root()
    fds = list(pass_fds)
    if root.startswith("/proc/self/fd/"):
        fds.append(int(root.rsplit("/", 1)[1]))
    return subprocess.Popen(
        [sys.executable, "-c", _AGAIN.format(module=module), root, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=fds,
        start_new_session=True,
    )
