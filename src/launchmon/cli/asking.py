"""Questions of a login, put to whoever sits at the terminal of a verb."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Iterator

from launchmon.connect import Asker, Nobody
from launchmon_agent.log.display import printable

TERMINAL = "/dev/tty"
LONGEST = 4096
"""Bytes of an answer: what a terminal takes as one line."""


def at_hand() -> Asker:
    """The person at the terminal, if stdin is one. A script is never asked."""
    return TerminalAsker() if sys.stdin.isatty() else Nobody()


class TerminalAsker:
    """Asks on the controlling terminal, so that stdout stays data. The event loop goes on meanwhile."""

    def __init__(self, path: str = TERMINAL) -> None:
        self._path = path
        self._turn = asyncio.Lock()

    async def ask(self, prompt: str, *, secret: bool) -> str | None:
        async with self._turn:
            try:
                terminal = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return None
            try:
                lines = [printable(line) for line in prompt.splitlines()]
                with _without_echo(terminal) if secret else contextlib.nullcontext():
                    os.write(terminal, "\n".join(lines).encode() + b" ")  # an answer may follow at once
                    answer = await _line(terminal)
                if secret or answer is None:
                    os.write(terminal, b"\n")
                return answer
            except (OSError, termios.error):
                return None
            finally:
                os.close(terminal)

    async def confirm(self, question: str) -> bool:
        while True:
            answer = await self.ask(f"{question} (yes/no)", secret=False)
            word = "no" if answer is None else answer.strip().lower()
            if word in ("yes", "no"):
                return word == "yes"
            question = "Please answer yes or no."


async def _line(terminal: int) -> str | None:
    """The next line without its end; None at the end of input (Ctrl-D)."""
    loop = asyncio.get_running_loop()
    typed = bytearray()
    while True:
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(terminal, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(terminal)
        part = os.read(terminal, LONGEST)
        typed += part
        if not part:
            return None
        if typed.endswith(b"\n"):
            return typed[:-1].decode("utf-8", "surrogateescape")
        if len(typed) > LONGEST:
            return None


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


@contextlib.contextmanager
def _without_echo(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    silent = termios.tcgetattr(terminal)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
