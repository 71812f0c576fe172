"""``launchmon launch --split`` inside a real tmux, with a server of the demo."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon.demo.scenarios import demo_command
from launchmon_agent.runs.directory import runs
from launchmon_agent.sensors import proc
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

LAUNCHMON = [sys.executable, "-c", "from launchmon.cli import main; main()"]
SOURCE = Path(__file__).resolve().parents[2] / "src"


class Tmux:
    def __init__(self, folder: Path, width: int) -> None:
        self._socket = str(folder / "tmux")
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(folder), "TERM": "xterm-256color"}
        environment |= {"XDG_CONFIG_HOME": str(folder / "config"), "LANG": "C.UTF-8"}
        subprocess.run([*self._command, "new", "-d", "-x", str(width), "-y", "50", "sh"], env=environment, check=True)

    @property
    def _command(self) -> list[str]:
        return ["tmux", "-S", self._socket, "-f", "/dev/null"]

    def ask(self, *arguments: str) -> str:
        return subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False).stdout

    def type(self, *words: str) -> None:
        self.ask("send-keys", shlex.join(words), "Enter")

    def panes(self, what: str) -> list[str]:
        return self.ask("list-panes", "-F", f"#{{{what}}}").splitlines()

    def text(self, pane: str = "") -> str:
        return self.ask("capture-pane", "-p", *(["-t", pane] if pane else []))


@pytest.fixture(params=[200, 100], ids=["wide", "narrow"])
def tmux(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tmux]:
    one = Tmux(tmp_path, request.param)
    yield one
    one.ask("kill-server")
    for _, file in runs(str(tmp_path / "launchmon" / "runs")):  # of a test that failed halfway
        if file.server is not None and proc.alive(file.server.pid, file.server.start_time):
            os.kill(file.server.pid, signal.SIGKILL)  # its ranks follow by themselves


def test_the_server_s_output_stands_beside_launchmon(tmux: Tmux) -> None:
    argv, env = demo_command("healthy", free_port(), speed=8.0)
    changes = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    tmux.type(*LAUNCHMON, "launch", "--split", "--name", "mine", *changes, "--", *argv)
    until(lambda: len(tmux.panes("pane_id")) == 2, 60)
    mine, output = tmux.panes("pane_id")
    side_by_side = len(set(tmux.panes("pane_top"))) == 1
    assert side_by_side == (int(tmux.ask("display", "-p", "#{window_width}")) == 200)
    until(lambda: "server_args" in tmux.ask("capture-pane", "-p", "-S", "-200", "-t", output), 60)
    until(lambda: "mine" in tmux.text(mine))
    until(lambda: tmux.panes("pane_title")[1] == "output of mine")
    assert tmux.panes("pane_active") == ["1", "0"]
    until(lambda: tmux.panes("pane_title")[0] == "mine: ready - launchmon", 60)
    tmux.ask("send-keys", "-t", mine, "k")
    until(lambda: "force at once" in tmux.text(mine))  # the plan is there: before that ! does nothing
    tmux.ask("send-keys", "-t", mine, "!")
    until(lambda: "the server has ended" in tmux.text(output), 60)
    until(lambda: tmux.panes("pane_dead") == ["0", "1"])
    tmux.ask("send-keys", "-t", mine, "C-c")
    until(lambda: tmux.panes("pane_current_command")[0] == "sh")


def test_outside_of_tmux_it_refuses_before_anything_starts(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
    done = subprocess.run(
        [*LAUNCHMON, "launch", "--split", "--", "true"],
        env={**environment, "PYTHONPATH": str(SOURCE), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "--split needs tmux" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
