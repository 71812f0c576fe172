"""The pane with a server's own output: nothing in it is obeyed, bars refresh in place, and it ends with the server."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from launchmon import split
from launchmon.output import follow, lives, shown
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run


@pytest.mark.parametrize(
    ("data", "text", "rest"),
    [
        (b"one\ntwo", "one\x1b[K\n", b"two"),
        (b"one\r\ntwo\r\n", "one\x1b[K\ntwo\x1b[K\n", b""),
        (b" 10%\r 20%\r 30%", " 10%\x1b[K\r 20%\x1b[K\r", b" 30%"),
        (b" 10%\r", "", b" 10%\r"),
        (b"\x1b]0;title\x07\x1b[2Jx\n", "␛]0;title␇␛[2Jx\x1b[K\n", b""),
        (b"\x1b[31mred\x1b[0m\n", "red\x1b[K\n", b""),
        (b"", "", b""),
    ],
)
def test_what_is_shown_of_some_bytes(data: bytes, text: str, rest: bytes) -> None:
    assert shown(data) == (text, rest)


def test_it_follows_what_is_written_and_ends_with_the_server(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"begin\nhal")
    writes = [b"f\n", b"", b"last words"]

    def wait() -> None:
        with log.open("ab") as file:
            file.write(writes.pop(0))

    text = "".join(follow(str(log), lambda: bool(writes), wait))
    assert text.replace("\x1b[K", "") == "begin\nhalf\nlast words"


def test_an_emptied_file_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"a long line of before\n")
    living = [True]

    def wait() -> None:
        log.write_bytes(b"new\n")
        living.clear()

    text = "".join(follow(str(log), lambda: bool(living), wait))
    assert text.replace("\x1b[K", "") == "a long line of before\nnew\n"


def test_a_process_is_known_by_its_start_too() -> None:
    start = psutil.Process().create_time()
    assert lives(os.getpid(), start)
    assert not lives(os.getpid(), start - 100)


@pytest.mark.parametrize("environment", [{}, {"TMUX": "/tmp/x,1,0"}, {"TMUX_PANE": "%1"}])
def test_outside_of_tmux_there_is_nothing_to_split(environment: dict[str, str]) -> None:
    with pytest.raises(Refused, match="needs tmux") as refused:
        split.require(environment)
    assert refused.value.try_.startswith("tmux new launchmon launch --split")


def test_a_run_without_a_log_of_its_own_has_no_pane() -> None:
    with pytest.raises(Refused, match="no output"):
        split.open_beside(Run(1.0, id="x"), {"TMUX": "x", "TMUX_PANE": "%1"})
