"""Stacks of a process that carries the launch hook: asked for by a signal, read from a file. Needs no ptrace."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

from launchmon_agent.runs.handle import Handle
from launchmon_agent.sensors import proc
from launchmon_agent.stacks import faulthandler_text as text
from launchmon_agent.stacks.model import ReadThread

_SIGNAL = signal.SIGUSR2
_POLL_S = 0.01
_QUIET_LOOKS = 5
"""A dump of all threads takes a millisecond or two; when its file has not grown for so many looks, it is whole, if the
main thread, which comes last, has begun in it and the signal's handler has returned."""

_QUIET_LOOKS_AT_LEAST = 50
"""The same where that cannot be told: of more than 100 threads the last are left out, and a program may block the
signal. A container's limit of CPU lets a process stand still for 100 ms in the midst of its dump."""


class Unhooked(Exception):
    """The process cannot be asked. The message says why, fit for a person."""


@dataclass(frozen=True)
class Hooked:
    threads: list[ReadThread]
    python: str | None


def dump(pid: int, start_time: float, home: str, seconds: float) -> Hooked:
    """Asks one process. Raises :class:`Unhooked`. ``home``: see :func:`launchmon_agent.stacks.plant.home_of`.

    The signal is sent only where it is certain to be caught: its default action would end the process.
    """
    path = os.path.join(home, f"{pid}.txt")
    head = proc.read(path)
    header = text.parse_header((head or b"").decode("utf-8", "replace"))
    if head is None or header is None:
        raise Unhooked("the process does not carry launchmon's launch hook")
    handle = Handle.open(pid, start_time)
    if handle is None:
        raise Unhooked("the process is gone")
    try:
        _must_catch(pid, header, path)
        if not handle.send(_SIGNAL):
            raise Unhooked("the signal that asks for the stacks could not be sent")
        said = _wait(pid, path, len(head), header.main, handle, seconds)
    finally:
        handle.close()
    _forget(path, len(head) + len(said))
    return Hooked(text.parse(said.decode("utf-8", "replace"), header.main), header.python)


def _must_catch(pid: int, header: text.Header, path: str) -> None:
    """That faulthandler's handler is still there, and its file still behind the descriptor that it writes to."""
    if not _signal_in(pid, b"SigCgt:"):
        raise Unhooked("the program has taken launchmon's signal handler away")
    try:
        target = os.readlink(f"{proc.PROC}/{pid}/fd/{header.fd}")
    except PermissionError:
        return  # not for us to see; the header was written by this process all the same
    except OSError:
        target = ""
    if target != os.path.realpath(path):
        raise Unhooked("the program has closed the file that launchmon's hook writes to")


def _signal_in(pid: int, mask: bytes) -> bool:
    """Whether our signal is in that mask of the main thread, as ``/proc/PID/status`` names it."""
    for line in (proc.read(f"{proc.PROC}/{pid}/status") or b"").splitlines():
        if line.startswith(mask):
            return bool(int(line.split()[1], 16) >> (_SIGNAL - 1) & 1)
    return False


def _wait(pid: int, path: str, known: int, main: int, handle: Handle, seconds: float) -> bytes:
    """What was added to the file behind its first ``known`` bytes, once it is whole. ``main``: the main thread."""
    deadline = time.monotonic() + seconds
    said, quiet = b"", 0
    while time.monotonic() < deadline:
        now = (proc.read(path) or b"")[known:]
        if len(now) != len(said):
            said, quiet = now, 0
        elif said:
            quiet += 1
            if quiet >= _QUIET_LOOKS_AT_LEAST or (quiet >= _QUIET_LOOKS and _is_whole(pid, said, main)):
                return said
        elif handle.is_gone():
            raise Unhooked("the process ended before it could answer")
        time.sleep(_POLL_S)
    if said:
        return said
    raise Unhooked(f"the process did not answer within {seconds:.0f} s: it is stopped, or asleep in the kernel")


def _is_whole(pid: int, said: bytes, main: int) -> bool:
    """The main thread has begun, and no handler runs: while one does, the kernel blocks its signal (sigaction(2))."""
    return f"0x{main:016x}".encode() in said and not _signal_in(pid, b"SigBlk:")


def _forget(path: str, size: int) -> None:
    """Keeps the file small: the hook appends, so after a dump the header alone may stay."""
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            header = file.readline()
        if os.path.getsize(path) == size:
            os.truncate(path, len(header))
