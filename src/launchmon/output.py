"""Follows a server's output in a pane of its own: ``python -m launchmon.output LOG PID START_TIME``.

Like ``tail -f``, but nothing in the log is obeyed by the terminal. Ends when the process is gone and all is printed.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator

import psutil

from launchmon_agent.log.display import text_of

LOOK_S = 0.25
CHUNK = 1 << 16

_ENDS = re.compile(rb"(\r\n|\n|\r)")
_SHOWN_ENDS = {b"\r\n": "\n", b"\n": "\n", b"\r": "\r"}
_CLEAR = "\x1b[K"
"""Erases what a longer line has left to the right, as a progress bar's refresh needs it."""


def shown(data: bytes) -> tuple[str, bytes]:
    """What to print of these bytes, and the beginning of a line that has not ended yet.

    A carriage return goes back to the start of the line, so that the refreshes of a bar lie over each other.
    """
    *parts, rest = _ENDS.split(data)
    if parts and parts[-1] == b"\r" and not rest:  # the line feed of this one may be yet to come
        rest = parts.pop(-2) + parts.pop()
    lines = zip(parts[::2], parts[1::2], strict=True)
    return "".join(f"{text_of(line)[0]}{_CLEAR}{_SHOWN_ENDS[end]}" for line, end in lines), rest


def follow(path: str, alive: Callable[[], bool], wait: Callable[[], None]) -> Iterator[str]:
    """What to print, as it is written. ``wait`` is called where there is nothing new."""
    held = b""
    with open(path, "rb") as file:
        while True:
            living = alive()  # before the read: what it wrote last is read after it has ended
            data = file.read(CHUNK)
            if data:
                text, held = shown(held + data)
                yield text
            elif os.fstat(file.fileno()).st_size < file.tell():  # emptied by somebody
                file.seek(0)
            elif living:
                wait()
            else:
                yield text_of(held)[0]
                return


def lives(pid: int, start_time: float) -> bool:
    """Whether this very process lives; its start tells it from a later one with the same number."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - start_time) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def main(path: str, pid: str, start_time: str) -> None:
    try:
        for text in follow(path, lambda: lives(int(pid), float(start_time)), lambda: time.sleep(LOOK_S)):
            sys.stdout.write(text)
            sys.stdout.flush()
        print(f"\n── the server has ended (pid {pid}) ──")  # noqa: T201
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
