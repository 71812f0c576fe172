from __future__ import annotations

import asyncio
import os
import pty
import termios
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from launchmon.cli import asking
from launchmon.cli.asking import TerminalAsker
from launchmon.connect import Nobody


@dataclass
class Terminal:
    path: str
    master: int
    slave: int

    async def shows(self, text: str) -> str:
        """All that came on the screen up to ``text``."""
        seen = ""
        while text not in seen:
            seen += (await asyncio.to_thread(os.read, self.master, 1024)).decode()
        return seen

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    yield Terminal(os.ttyname(slave), master, slave)
    os.close(master)
    os.close(slave)


async def test_an_answer_is_a_line(terminal: Terminal) -> None:
    asked = asyncio.create_task(TerminalAsker(terminal.path).ask("Code:", secret=False))
    await terminal.shows("Code: ")
    terminal.type(b"12 \xc3\xa934\n")
    assert await asked == "12 é34"


async def test_a_secret_is_not_shown_and_the_terminal_is_as_before(terminal: Terminal) -> None:
    asked = asyncio.create_task(TerminalAsker(terminal.path).ask("Password:", secret=True))
    seen = await terminal.shows("Password: ")
    assert not terminal.echoes
    terminal.type(b"sesame\n")
    assert await asked == "sesame"
    assert terminal.echoes
    assert "sesame" not in seen + await terminal.shows("\n")


async def test_the_terminal_is_as_before_when_nobody_waits_any_longer(terminal: Terminal) -> None:
    asked = asyncio.create_task(TerminalAsker(terminal.path).ask("Password:", secret=True))
    await terminal.shows("Password: ")
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert terminal.echoes


async def test_the_end_of_input_is_no_answer(terminal: Terminal) -> None:
    asked = asyncio.create_task(TerminalAsker(terminal.path).ask("Password:", secret=True))
    await terminal.shows("Password: ")
    terminal.type(b"\x04")
    assert await asked is None


async def test_yes_and_no_are_words(terminal: Terminal) -> None:
    asked = asyncio.create_task(TerminalAsker(terminal.path).confirm("The key is\n\x1b]0;owned\x07SHA256:x\nGo on?"))
    question = await terminal.shows("(yes/no)")
    assert "\x1b" not in question and "SHA256:x\r\nGo on? (yes/no)" in question
    terminal.type(b"y\n")
    await terminal.shows("Please answer yes or no.")
    terminal.type(b"YES\n")
    assert await asked


async def test_one_thing_is_asked_at_a_time(terminal: Terminal) -> None:
    asker = TerminalAsker(terminal.path)
    first = asyncio.create_task(asker.ask("first?", secret=False))
    second = asyncio.create_task(asker.ask("second?", secret=False))
    assert "second?" not in await terminal.shows("first? ")
    terminal.type(b"1\n")
    await terminal.shows("second? ")
    terminal.type(b"2\n")
    assert (await first, await second) == ("1", "2")


async def test_without_a_terminal_nobody_answers() -> None:
    asker = TerminalAsker("/no/such/terminal")
    assert await asker.ask("Password:", secret=True) is None
    assert not await asker.confirm("Go on?")


def test_a_script_is_never_asked(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing, os.fdopen(os.dup(terminal.slave)) as tty:
        monkeypatch.setattr("sys.stdin", nothing)
        assert isinstance(asking.at_hand(), Nobody)
        monkeypatch.setattr("sys.stdin", tty)
        assert isinstance(asking.at_hand(), TerminalAsker)


async def test_the_echo_is_off_before_a_secret_is_asked_for(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program answers at once."""
    write = os.write

    def answered_at_once(descriptor: int, data: bytes) -> int:
        if b"Password" in data:
            assert not terminal.echoes
            terminal.type(b"sesame\n")
        return write(descriptor, data)

    monkeypatch.setattr(asking.os, "write", answered_at_once)
    assert await asyncio.wait_for(TerminalAsker(terminal.path).ask("Password:", secret=True), 10) == "sesame"
