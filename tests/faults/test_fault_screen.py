"""The terminal is closed, stopped, hung up and resized under the screen; the server behind it notices nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.sensors import proc
from tests.support.fault_rig import FaultRig, fault_rig
from tests.support.prefixes import SOURCE
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

PROGRAM = "from launchmon.cli import main; main()"
STOPPED_WHILE_IT_WRITES = f"""
import os, queue, signal
def put(self, item, original=queue.Queue._put):
    original(self, item)
    if os.path.exists(os.environ["STOP"]):
        os.unlink(os.environ["STOP"])
        os.kill(os.getpid(), signal.SIGTSTP)
queue.Queue._put = put
{PROGRAM}
"""
"""The signal comes while it holds the lock of the queue to its terminal."""

SIZES = [(80, 24), (200, 50), (20, 5), (1, 1), (500, 10), (120, 40)]


class Screen:
    """``launchmon attach`` in a terminal of tmux, started by a shell there."""

    def __init__(self, rig: FaultRig, place: RunDirectory, name: str, program: str = PROGRAM) -> None:
        self._command = ["tmux", "-S", str(rig.home / f"tmux-{name}"), "-f", "/dev/null"]
        environment = {**os.environ, **rig.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", "PS1": "$ "}
        self.stop = rig.home / f"stop-{name}"
        environment |= {"XDG_CONFIG_HOME": str(rig.home), "LANG": "C.UTF-8", "STOP": str(self.stop)}
        subprocess.run(
            [*self._command, "new", "-d", "-x", "120", "-y", "40", "bash --norc"], env=environment, check=True
        )
        self._run = [sys.executable, "-c", program, "attach", place.id]
        self._ask("send-keys", f" {shlex.join(self._run)}", "Enter")
        until(lambda: "live" in self.text, 60)
        (self.pid,) = [pid for pid in proc.pids() if proc.cmdline(pid) == self._run]
        self.began = proc.start_time(self.pid) or 0.0

    @property
    def text(self) -> str:
        return self._ask("capture-pane", "-p")

    @property
    def lives(self) -> bool:
        return proc.alive(self.pid, self.began)

    def type(self, *keys: str) -> None:
        self._ask("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._ask("resize-window", "-x", str(width), "-y", str(height))

    def close(self) -> None:
        """The terminal, with all that is in it."""
        self._ask("kill-server")

    def _ask(self, *arguments: str) -> str:
        return subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[FaultRig, RunDirectory]]:
    """One run for all: none of them may harm it."""
    with fault_rig() as rig:
        with rig.agent() as agent:
            place = rig.launch(agent, "--tp", "2")
        yield rig, place


@pytest.fixture
def screen(watched: tuple[FaultRig, RunDirectory], request: pytest.FixtureRequest) -> Iterator[Screen]:
    one = Screen(*watched, request.node.name[-12:].strip("[]"), getattr(request, "param", PROGRAM))
    yield one
    one.close()
    until(lambda: not one.lives)
    rig, place = watched
    rig.assert_unharmed(place)
    rig.assert_kept(place)


def test_the_terminal_is_closed(screen: Screen) -> None:
    screen.close()
    until(lambda: not screen.lives)


@pytest.mark.parametrize("number", ["SIGHUP", "SIGTERM", "SIGKILL"])
def test_the_client_is_ended_by_a_signal(screen: Screen, number: str) -> None:
    os.kill(screen.pid, getattr(signal, number))
    until(lambda: not screen.lives)
    assert "Traceback" not in screen.text


def test_the_client_is_stopped_and_goes_on(screen: Screen) -> None:
    os.kill(screen.pid, signal.SIGTSTP)
    until(lambda: "Stopped" in screen.text)
    screen.type(" fg", "Enter")
    until(lambda: "TP1" in screen.text and "live" in screen.text)
    screen.type("?")
    until(lambda: "search" in screen.text.lower())
    assert screen.lives


@pytest.mark.parametrize("screen", [STOPPED_WHILE_IT_WRITES], ids=["writing"], indirect=True)
def test_the_client_is_stopped_at_the_worst_moment_and_goes_on(screen: Screen) -> None:
    screen.stop.touch()
    until(lambda: "Stopped" in screen.text)
    screen.type(" fg", "Enter")
    until(lambda: "TP1" in screen.text and "live" in screen.text)
    screen.type("?")
    until(lambda: "search" in screen.text.lower())


def test_a_storm_of_sizes_leaves_a_whole_screen(screen: Screen) -> None:
    for _ in range(6):
        for size in SIZES:
            screen.resize(*size)
    until(lambda: "TP0" in screen.text and "TP1" in screen.text and "live" in screen.text)
    rows = screen.text.splitlines()
    assert len(rows) <= 40 and all(len(row) <= 120 for row in rows)
    assert screen.lives
