"""How the agent's code reaches the machine it runs on, and how it starts a second process from the same code.

The client starts any Python with :data:`STUB`, which says :data:`READY` and then runs one line of Python that it reads
from stdin: :data:`LOADER`. That reads the agent as a zip into a memfd and imports it from there, so no file is left on
the target. What precedes the ready line (a login banner, what a shell's startup files print) is not ours. The client
sends nothing more until the hello has come, so nothing is lost in a read buffer.
"""

from __future__ import annotations

import binascii
import os
import subprocess
import sys
from collections.abc import Sequence

SHIPPED = "shipped"
"""The folder in the zip with packages of others, for a target that has not got them: last on ``sys.path``."""

READY = b"launchmon-agent-ready"
"""The line, alone but for a number, with which the stub says that it reads. The number is that of the Python's bytecode
(the first two bytes of ``importlib.util.MAGIC_NUMBER``): where the client's is the same it sends the agent compiled."""

TERMINAL = b"launchmon-agent-terminal"
"""The same from behind a terminal. Whoever made that one may obey some bytes: ``ssh -tt`` has its escapes, and
``docker exec -it`` its keys to detach."""

STUB = (
    "import os,sys,tty;"
    "from importlib.util import MAGIC_NUMBER as m;"
    "t=os.isatty(0);"
    "t and(tty.setraw(0),os.dup2(os.open(os.devnull,1),2));"
    'os.write(1,b"%claunchmon-agent-%s %d%c"%(10,(b"ready",b"terminal")[t],m[0]+256*m[1],10));'
    "exec(sys.stdin.buffer.readline())"
)
"""Python source for ``python3 -c``: one line without a single quote, a backslash or an exclamation mark, so that every
shell passes it on between single quotes. A terminal is made to pass bytes, and its stderr would end up among them."""

LOADER = (
    "import binascii\n"
    "z=sys.stdin.buffer.read({size})\n"
    "if {printable}:z=binascii.a2b_base64(z)\n"
    "f=os.memfd_create('launchmon-agent')\n"
    "o=os.fdopen(os.dup(f),'wb')\n"
    "o.write(z)\n"
    "o.close()\n"
    "sys.argv[1:]+={options!r}\n"
    "sys.path[:]=['/proc/self/fd/%d'%f,*sys.path,'/proc/self/fd/%d/{shipped}'%f]\n"
    "from launchmon_agent.serve import main\n"
    "main()\n"
)
"""What the stub runs next; needs Linux and Python 3.10."""

_AGAIN = (
    "import sys;r=sys.argv.pop(1);sys.path[:]=[r,*sys.path,r+'/{shipped}'];from {module} import main;main(sys.argv[1:])"
)


def load(code: bytes, options: Sequence[str] = (), *, printable: bool = False) -> bytes:
    """What to send once the stub is ready: it starts ``serve.main`` of the agent in the zip ``code``.

    ``options`` follow those that whatever started the stub has given it. ``printable``: sent so that no terminal finds
    anything to obey in it.
    """
    if printable:
        code = binascii.b2a_base64(code, newline=False)
    source = LOADER.format(size=len(code), printable=printable, options=list(options), shipped=SHIPPED)
    return f"exec({source!r})\n".encode("ascii") + code


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
        [sys.executable, "-c", _AGAIN.format(module=module, shipped=SHIPPED), root, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=fds,
        start_new_session=True,
    )
