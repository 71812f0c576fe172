"""What a process of the server does about its title, its parent and its end."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def become(title: str, launcher: int) -> None:
    """Take the title that SGLang gives, and die with the launcher from now on.

    A launcher that died earlier, while this process was still importing, has left an orphan. SGLang's orphans go on
    for a while, some for ever; a demo leaves nothing behind, so this one ends here.
    """
    # Without this, setproctitle would use the memory of the environment for the title, and wipe it.
    os.environ["SPT_NOENV"] = "1"
    import setproctitle

    setproctitle.setproctitle(title)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher:
        os._exit(1)


def ignore_interrupts() -> None:
    """Ctrl-C is for the launcher, which then ends its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
