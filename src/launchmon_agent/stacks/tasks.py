"""The last resort: what the kernel tells about each thread of a process, as frames. Needs no ptrace for most of it.

``/proc/PID/task/TID`` gives the name and state to everybody, ``wchan`` to the same user where the kernel shows it,
``syscall`` to who may trace, ``stack`` to root alone.
"""

from __future__ import annotations

import os
import re
import signal

from launchmon_agent.events import Frame
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.syscalls import syscall_name
from launchmon_agent.stacks.model import ReadThread

KERNEL, SYSTEM_CALL, STATE = "kernel", "system call", "state"
"""What stands for the file of a frame here."""

_WORDS = {
    "R": "running",
    "S": "asleep",
    "D": "disk-sleep",
    "T": "stopped",
    "t": "traced",
    "Z": "ended",
    "X": "ended",
    "I": "asleep",
}
_STACK = re.compile(r"^\[<[0-9a-fx]+>\] (?P<function>[^+\s]+)(?:\+\S+)?")
_ACTIVE = {"R": True, "S": False, "D": False, "I": False}


def read(pid: int) -> list[ReadThread]:
    """Main thread first; empty when the process is gone. The outermost frame of each thread is its state."""
    threads = []
    for tid in thread_ids(pid):
        found = proc.stat_of(f"{proc.PROC}/{pid}/task/{tid}")
        if found is None:
            continue
        threads.append(
            ReadThread(
                frames=(*_frames(f"{proc.PROC}/{pid}/task/{tid}"), _state(found.state)),
                name=found.comm,
                os_id=tid,
                main=tid == pid,
                active=_ACTIVE.get(found.state),
            )
        )
    return threads


def thread_ids(pid: int) -> list[int]:
    """The main thread's first, which is the process's own. Empty when the process is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"{proc.PROC}/{pid}/task"))
    except OSError:
        return []


def states(pid: int) -> str:
    """The state of each thread, as in ``"SSSRS"``. Empty when the process is gone."""
    rows = (proc.stat_of(f"{proc.PROC}/{pid}/task/{tid}") for tid in thread_ids(pid))
    return "".join(row.state for row in rows if row is not None)


def stop_pending(pid: int) -> bool:
    """Whether a SIGSTOP waits for a thread to run. SIGCONT takes it away before it has stopped anything (signal(7))."""
    for tid in thread_ids(pid):
        for line in (proc.read(f"{proc.PROC}/{pid}/task/{tid}/status") or b"").splitlines():
            if line.startswith((b"SigPnd:", b"ShdPnd:")) and int(line.split()[1], 16) >> (signal.SIGSTOP - 1) & 1:
                return True
    return False


def _frames(folder: str) -> tuple[Frame, ...]:
    """What it sleeps in, innermost first: the kernel's stack, else the one function of ``wchan``; the system call."""
    functions = _kernel_stack(folder)
    if not functions:
        place = (proc.read(f"{folder}/wchan") or b"").strip().decode("ascii", "replace")
        functions = [] if place in ("", "0") else [place]
    first = (proc.read(f"{folder}/syscall") or b"").split(None, 1)[:1]
    number = int(first[0]) if first and first[0].isdigit() else None
    call = syscall_name(number)
    frames = [Frame(name, file=KERNEL, native=True) for name in functions]
    if call is not None:
        frames.append(Frame(call, file=SYSTEM_CALL, native=True))
    return tuple(frames)


def _state(letter: str) -> Frame:
    return Frame(_WORDS.get(letter, letter), file=STATE, native=True)


def _kernel_stack(folder: str) -> list[str]:
    text = (proc.read(f"{folder}/stack") or b"").decode("ascii", "replace")
    return [found["function"] for line in text.splitlines() if (found := _STACK.match(line))]
