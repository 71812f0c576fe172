"""The launch hook: runs first in every Python of a run that launchmon launched, and hands over to the next of its name.

It lies in a directory of the run that is first on PYTHONPATH, so it reaches the server, its ranks, and whatever Python
program these start (compile workers and the like, which inherit PYTHONPATH as they do without it). It does two things,
neither of which the server can notice until somebody asks for a dump:

* where Yama restricts it, it allows the keeper, and what the keeper starts, to read this process (``PR_SET_PTRACER``);
* SIGUSR2 makes faulthandler write the stacks of all threads to a file of this process in the run's directory. Without
  ``chain``, which would go on to the default action and end the process.

A forked child gets both anew; an exec takes the handler away, and the new program comes through here by itself if it
is a Python. Whatever goes wrong here is silent: the server must start as it would without. The hook leaves ``sys.path``
as it would be without it, and the import that follows finds the environment's own ``sitecustomize`` or fails as it
would have failed. Written for any Python that a server may start, with few imports that are not made anyway.
"""

import os
import sys

HOME = "LAUNCHMON_HOOK"  # the directory of this file
KEEPER = "LAUNCHMON_HOOK_PTRACER"  # who may read us: a pid, or -1 for any process of the same user
YAMA = "/proc/sys/kernel/yama/ptrace_scope"
PR_SET_PTRACER = 0x59616D61
HIGH = 200  # descriptors from here on are in nobody's way


def allow(keeper):
    # type: (int) -> None
    with open(YAMA) as file:
        scope = int(file.read())
    if scope == 1:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(keeper & (2**64 - 1)), 0, 0, 0)


def register(home):
    # type: (str) -> None
    import _signal  # type: ignore[import-not-found]  # signal itself would bring in enum, dearer than all the rest
    import _thread
    import faulthandler
    import fcntl

    path = os.path.join(home, str(os.getpid()) + ".txt")
    low = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        out = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH)
    finally:
        os.close(low)
    words = (os.getpid(), _thread.get_ident(), out, sys.version_info[0], sys.version_info[1])
    os.write(out, b"launchmon-hook pid=%d main=0x%x fd=%d python=%d.%d\n" % words)
    faulthandler.register(_signal.SIGUSR2, file=out, all_threads=True, chain=False)


def arm():
    # type: () -> None
    home, keeper = os.environ.get(HOME), os.environ.get(KEEPER)
    if not home or not keeper:
        return
    try:
        allow(int(keeper))
    except Exception:  # noqa: BLE001, S110 - no Yama here; and the server must start whatever goes wrong
        pass
    try:
        register(home)
    except Exception:  # noqa: BLE001, S110
        pass


def hand_over():
    # type: () -> None
    """Import the next module of our own name. It takes our place in ``sys.modules``, as any module may."""
    spec = globals().get("__spec__")  # a Python 2 has none, and no more than one hook
    here = os.path.dirname(spec.origin) if spec else os.environ.get(HOME)
    others = [entry for entry in sys.path if entry != here]
    if len(others) == len(sys.path):
        return  # found by other means than the path: the next one found would be this one again
    sys.path[:] = others
    this = sys.modules.pop(__name__)  # kept: a Python 2 would empty a module that nobody holds
    __import__(this.__name__)


if __name__ == "sitecustomize":
    arm()
    try:
        os.register_at_fork(after_in_child=arm)
    except Exception:  # noqa: BLE001, S110
        pass
    hand_over()
