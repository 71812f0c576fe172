"""Logs that come from a command or a tmux pane, with real processes and a tmux server of the test's own."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.log import tmux as tmux_module
from launchmon_agent.log.sources import CommandSource
from launchmon_agent.log.tmux import TmuxSource
from tests.support.waiting import until


def read(path: str) -> bytes:
    return Path(path).read_bytes()


# ------------------------------------------------------------------------------------------------------------- command


def test_a_pipeline_is_run_by_the_shell_and_both_outputs_are_kept(tmp_path: Path) -> None:
    source = CommandSource("printf 'b\\na\\n' | sort; echo oops >&2; cat; exit 3", str(tmp_path))
    until(lambda: source.problem is not None)
    assert read(source.path) == b"a\nb\noops\n"
    assert source.problem == "the log command has ended with status 3: nothing more comes from it"
    assert (source.kind, source.name.startswith("printf")) == ("command", True)
    source.close()
    assert list(tmp_path.iterdir()) == []


def test_the_copy_is_private(tmp_path: Path) -> None:
    source = CommandSource("true", str(tmp_path))
    assert stat.S_IMODE(Path(source.path).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(source.path).parent.stat().st_mode) == 0o700
    source.close()


def test_closing_ends_the_whole_pipeline(tmp_path: Path) -> None:
    source = CommandSource("trap '' TERM; echo $$; (trap '' TERM; sh -c 'echo $$; sleep 100') | cat", str(tmp_path))
    until(lambda: read(source.path).count(b"\n") == 2)
    pids = [int(pid) for pid in read(source.path).split()]
    assert all(psutil.pid_exists(pid) for pid in pids)
    source.close()
    source.close()
    until(lambda: not any(alive(pid) for pid in pids))


def test_the_command_ends_with_us_however_we_end(tmp_path: Path) -> None:
    code = (
        "import sys, time; from launchmon_agent.log.sources import CommandSource\n"
        "source = CommandSource('echo $$; sleep 100 | cat', sys.argv[1])\n"
        "print(source.path, flush=True); time.sleep(100)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True, env={**os.environ, **paths()}
    )
    assert owner.stdout is not None
    path = owner.stdout.readline().strip()
    until(lambda: read(path).count(b"\n") == 1)
    pid = int(read(path))
    family = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(lambda: not any(alive(one) for one in family))


@pytest.mark.parametrize("command", ["", "  ", "a\0b"])
def test_no_command_is_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(Refused):
        CommandSource(command, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_room_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no place to keep"):
        CommandSource("true", str(tmp_path / "missing"))


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def paths() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(sys.path)}


# ---------------------------------------------------------------------------------------------------------------- tmux

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

Tmux = Callable[..., str]


@pytest.fixture
def server() -> Iterator[tuple[Tmux, str]]:
    """A private tmux server with one pane of 80×10 that runs ``sh``; gives a way to talk to it, and its socket."""
    directory = tempfile.mkdtemp(prefix="lm-tmux-")  # a socket's path must be short
    socket = os.path.join(directory, "s")

    def tmux(*arguments: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout

    new = ("new-session", "-d", "-s", "test", "-x", "80", "-y", "10", "env PS1= ENV= sh")
    tmux("start-server", ";", "set-option", "-g", "history-limit", "50000", ";", *new)
    yield tmux, socket
    subprocess.run(["tmux", "-S", socket, "kill-server"], check=False, timeout=20)
    shutil.rmtree(directory, ignore_errors=True)


def lines(path: str) -> list[str]:
    return [line.rstrip("\r") for line in read(path).decode().split("\n")]


def numbers(path: str) -> list[int]:
    return [int(line[4:]) for line in lines(path)[:-1] if line.startswith("row ")]


COUNT = "i=0; while [ $i -lt {upto} ]; do i=$((i+1)); echo row $i; done; echo over"


def run_in(tmux: Tmux, command: str) -> None:
    tmux("send-keys", "-t", "test:0.0", "-l", command)
    tmux("send-keys", "-t", "test:0.0", "Enter")


def piped(tmux: Tmux) -> bool:
    return tmux("display-message", "-p", "-t", "test:0.0", "#{pane_pipe}").strip() == "1"


@needs_tmux
def test_backlog_then_what_follows_with_no_line_lost_or_twice_at_the_seam(
    server: tuple[Tmux, str], tmp_path: Path
) -> None:
    """The pane prints as fast as it can while it is attached to."""
    tmux, socket = server
    run_in(tmux, COUNT.format(upto=30000))
    until(lambda: int(tmux("display-message", "-p", "-t", "test:0.0", "#{history_size}")) > 500)
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    until(lambda: "over" in lines(source.path))
    assert numbers(source.path) == list(range(1, 30001))
    assert source.problem is None
    source.close()


@needs_tmux
def test_a_line_that_is_unfinished_at_the_seam_is_one_line(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    wide = "x" * 100  # wrapped by the pane of 80 columns
    run_in(tmux, f"clear; printf 'one\\n{wide}\\nhalf '; read answer; echo and half")
    until(lambda: tmux("display-message", "-p", "-t", "test:0.0", "#{cursor_x} #{cursor_y}").split() == ["5", "3"])
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    until(lambda: piped(tmux))
    tmux("send-keys", "-t", "test:0.0", "-l", "@")
    tmux("send-keys", "-t", "test:0.0", "Enter")
    until(lambda: "and half" in lines(source.path))
    found = lines(source.path)
    assert wide in found
    assert "half @" in found
    source.close()


@needs_tmux
def test_blanks_that_stand_at_the_seam_are_the_beginning_of_their_line(
    server: tuple[Tmux, str], tmp_path: Path
) -> None:
    tmux, socket = server
    run_in(tmux, "clear; printf 'one\n    '; read answer; echo and more")
    until(lambda: tmux("display-message", "-p", "-t", "test:0.0", "#{cursor_x} #{cursor_y}").split() == ["4", "1"])
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    tmux("send-keys", "-t", "test:0.0", "-l", "@")
    tmux("send-keys", "-t", "test:0.0", "Enter")
    until(lambda: lines(source.path)[-2:] == ["and more", ""])
    assert lines(source.path)[-4:-2] == ["one", "    @"]
    source.close()


@needs_tmux
def test_the_watcher_of_a_pipe_ends_with_it_however_late_it_begins(
    server: tuple[Tmux, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shell gets no time until launchmon has closed its end."""
    _, socket = server
    late = tmux_module._WRITER.replace("( read", "( sleep 1; read")
    assert late != tmux_module._WRITER
    monkeypatch.setattr(tmux_module, "_WRITER", late)
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    pid = source._writer()
    assert pid is not None
    os.close(source._gate)  # as its end by SIGKILL does
    until(lambda: not alive(pid))
    source._gate = -1
    source.close()


@needs_tmux
def test_the_pane_is_left_as_it_was(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    assert piped(tmux)
    source.close()
    until(lambda: not piped(tmux))
    assert list(tmp_path.iterdir()) == []


@needs_tmux
def test_the_pane_is_left_as_it_was_also_when_we_are_killed(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    code = (
        "import sys, time; from launchmon_agent.log.tmux import TmuxSource\n"
        "source = TmuxSource('test:0.0', sys.argv[1], sys.argv[2]); print('ready', flush=True); time.sleep(100)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, socket, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **paths()},
    )
    assert owner.stdout is not None and owner.stdout.readline() == "ready\n"
    assert piped(tmux)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()

    def printed() -> bool:  # tmux notices the end of a pipe when it next writes to it
        run_in(tmux, "echo")
        return not piped(tmux)

    until(printed)


@needs_tmux
def test_a_pipe_that_took_the_place_of_ours_is_left_alone(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    tmux("pipe-pane", "-t", "test:0.0", "cat >/dev/null")
    until(lambda: source._writer() is None)
    source.close()
    assert piped(tmux)


@needs_tmux
def test_a_pipe_of_somebody_else_is_left_alone_and_the_pane_captured(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    theirs = tmp_path / "theirs"
    run_in(tmux, COUNT.format(upto=100))
    until(lambda: "over" in tmux("capture-pane", "-p", "-t", "test:0.0").splitlines())
    tmux("pipe-pane", "-t", "test:0.0", f"cat >{theirs}")
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    assert numbers(source.path) == list(range(1, 101))
    run_in(tmux, "i=100; while [ $i -lt 3000 ]; do i=$((i+1)); echo row $i; done; echo over again")
    until(lambda: theirs.exists() and "over again" in theirs.read_text().replace("echo over again", ""))
    now = 0.0

    def arrived() -> bool:
        nonlocal now
        now += tmux_module.CAPTURE_S + 1
        source.poll(now)
        return "over again" in lines(source.path)

    until(arrived)
    assert numbers(source.path) == list(range(1, 3001))
    size = len(read(source.path))
    source.poll(now + 10)
    assert len(read(source.path)) == size
    source.close()
    assert piped(tmux)


@needs_tmux
def test_a_capture_that_cannot_be_joined_says_so(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    tmux("pipe-pane", "-t", "test:0.0", "cat >/dev/null")
    run_in(tmux, COUNT.format(upto=60))
    until(lambda: "over" in tmux("capture-pane", "-p", "-t", "test:0.0").splitlines())
    source = TmuxSource("test:0.0", socket, str(tmp_path))
    run_in(tmux, f"clear; {COUNT.format(upto=9000)} | tail -n 7000")
    until(lambda: "row 9000" in tmux("capture-pane", "-p", "-t", "test:0.0"))
    source.poll(100.0)
    assert tmux_module.GAP in read(source.path)
    assert numbers(source.path)[-1] == 9000
    source.close()


@needs_tmux
def test_a_pane_that_is_closed_is_told(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    tmux("new-window", "-d", "-t", "test", "cat")
    source = TmuxSource("test:1.0", socket, str(tmp_path))
    source.poll(1.0)
    assert source.problem is None
    tmux("kill-window", "-t", "test:1")
    source.poll(100.0)
    assert source.problem and "is gone" in source.problem
    source.close()


@needs_tmux
def test_a_pane_whose_program_has_ended_gives_what_it_shows(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    tmux("set-option", "-g", "remain-on-exit", "on")
    tmux("new-window", "-d", "-t", "test", "echo its last words; read _")
    until(lambda: "its last words" in tmux("capture-pane", "-p", "-t", "test:1.0"))
    tmux("send-keys", "-t", "test:1.0", "Enter")
    until(lambda: tmux("display-message", "-p", "-t", "test:1.0", "#{pane_dead}").strip() == "1")
    source = TmuxSource("test:1.0", socket, str(tmp_path))
    assert "its last words" in lines(source.path)
    assert source.problem and "has ended" in source.problem
    source.close()


@needs_tmux
def test_odd_names_of_directories_are_no_trouble(server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    odd = tmp_path / "a b'c\"d #{pane_id} %H $HOME ;x \\y"
    odd.mkdir()
    source = TmuxSource("test:0.0", socket, str(odd))
    run_in(tmux, "echo it arri''ved")
    until(lambda: "it arrived" in lines(source.path))
    assert piped(tmux)
    source.close()


@needs_tmux
@pytest.mark.parametrize("pane", ["nowhere:0.0", "%999", "=;kill-server"])
def test_a_pane_that_is_not_there_is_refused(pane: str, server: tuple[Tmux, str], tmp_path: Path) -> None:
    tmux, socket = server
    with pytest.raises(Refused) as refused:
        TmuxSource(pane, socket, str(tmp_path))
    assert refused.value.cause and refused.value.try_
    assert list(tmp_path.iterdir()) == []
    assert tmux("list-sessions")


@needs_tmux
def test_a_server_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        TmuxSource("x:0.0", str(tmp_path / "no-socket"), str(tmp_path))
