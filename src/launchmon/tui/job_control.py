"""Ctrl+Z from outside: what Textual does when it is stopped and continued, at a moment when that can be done."""

from __future__ import annotations

import asyncio
import signal


def on_the_loop() -> None:
    """Make callbacks of the event loop of Textual's handlers for SIGTSTP and SIGCONT.

    They write to the terminal, through a queue. A handler of Python's runs between any two instructions, also within a
    write, and would wait for ever for the lock that is held there. Where there are none (no terminal) nothing changes.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTSTP, signal.SIGCONT):
        handler = signal.getsignal(number)
        if callable(handler):
            loop.add_signal_handler(number, handler, number, None)
