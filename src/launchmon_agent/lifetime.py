"""An agent ends with its pipe, within :data:`GRACE_S`, whatever it is busy with but what must not be left half done.

A thread may sit in a driver's call or a slow file system for minutes, and Python waits for its threads; a busy event
loop would not even notice that stdin has ended. So a thread waits for that alone, and ends the process.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterator

GRACE_S = 1.5
"""For leaving in order: the pipe of a tmux pane is taken away, private files are removed."""

FINISH_S = 180.0
"""How long an agent whose client has gone stays for what was begun: longer than the slowest kill and start."""

_ending = threading.Event()
_unfinished: set[object] = set()


def end_with(descriptor: int) -> None:
    """From now on the process ends with ``descriptor``: when whoever writes to it has closed it."""
    threading.Thread(target=_watch, args=(descriptor,), name="launchmon-lifetime", daemon=True).start()


def is_ending() -> None:
    """The conversation is over: the grace begins, even if nobody closes the descriptor."""
    _ending.set()


@contextlib.contextmanager
def finishing() -> Iterator[None]:
    """What is done inside is done to its end, also when the client is gone."""
    token = object()
    _unfinished.add(token)
    try:
        yield
    finally:
        _unfinished.discard(token)


def _watch(descriptor: int) -> None:
    hangup = select.poll()
    hangup.register(descriptor, select.POLLRDHUP)  # POLLHUP and POLLERR come unasked; POLLIN would come all the time
    while not _ending.is_set() and not hangup.poll(1000 * GRACE_S):
        pass
    until = time.monotonic() + FINISH_S
    while True:
        time.sleep(GRACE_S)
        if not _unfinished or time.monotonic() > until:
            os._exit(0)
