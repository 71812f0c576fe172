"""The output of a run that was started by hand goes where it went before: with real servers, files and tmux panes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon.session import Session
from launchmon_agent.discover import discover
from launchmon_agent.events import Run
from launchmon_agent.sensors import proc
from tests.support import fake_servers
from tests.support.client import agent, eventually
from tests.support.ports import free_port
from tests.support.waiting import until

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

READY = "ready to roll"


class Tmux:
    """A tmux server of the test's own with one session, ``work``."""

    def __init__(self, *command: str) -> None:
        self._name = f"launchmon-test-{uuid.uuid4().hex[:8]}"
        size = ("-x", "200", "-y", "50")
        self.run("-f", "/dev/null", "new-session", "-d", "-s", "work", *size, *command)

    def run(self, *arguments: str) -> str:
        environ = {**fake_servers.environment(), "PS1": "prompt> ", "ENV": ""}
        done = subprocess.run(
            ["tmux", "-L", self._name, *arguments], env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout

    def text(self) -> str:
        return self.run("capture-pane", "-p", "-S", "-", "-t", "work")

    def type(self, line: str) -> None:
        self.run("send-keys", "-t", "work", "-l", line, ";", "send-keys", "-t", "work", "Enter")

    def clear(self) -> None:
        """Of what has scrolled away, and of the screen."""
        self.run("send-keys", "-R", "-t", "work", ";", "clear-history", "-t", "work")


pytestmark = pytest.mark.usefixtures("ended")


@pytest.fixture
def shell() -> Iterator[Tmux]:
    pane = Tmux("sh", "-i")
    until(lambda: "prompt>" in pane.text())
    yield pane
    pane.run("kill-server")


def server(port: int) -> str:
    return shlex.join(fake_servers.command(port=port))


def pid_at(port: int) -> int | None:
    return next((one.pid for one in discover() if one.port == port and one.ranks), None)


async def attached(session: Session, port: int) -> Run:
    """To the server on this port, once it has come up."""
    until(lambda: pid_at(port) is not None and proc.listening_inodes(os.getpid(), port))
    run = await session.attach(pid=pid_at(port))
    await eventually(lambda: session.model.processes is not None)
    return run


@needs_tmux
async def test_a_shell_in_a_pane_shows_the_new_server_and_the_one_after_it(shell: Tmux) -> None:
    port = free_port()
    shell.type(server(port))
    async with agent() as session:
        await attached(session, port)
        assert "shown in tmux pane work:0.0 again" in (await session.relaunch_plan())["output"]
        shell.clear()
        second = await session.relaunch(set={"NCCL_DEBUG": "INFO"})
        until(lambda: READY in shell.text())
        assert f"--pid={second.pid}" in shell.text()

        shell.clear()
        third = await session.relaunch(set={"NCCL_DEBUG": "WARN"})
        until(lambda: READY in shell.text())
        assert f"--pid={third.pid}" in shell.text()
        assert shell.run("show-options", "-pv", "-t", "work", "remain-on-exit") == ""

        shell.clear()
        await session.kill()
    shell.type("echo and so $((1 + 1))")
    until(lambda: "\nand so 2" in shell.text())


@needs_tmux
async def test_a_pane_in_which_only_the_server_ran_stays_and_shows_the_new_one() -> None:
    port = free_port()
    pane = Tmux(server(port))
    try:
        async with agent() as session:
            await attached(session, port)
            pane.clear()
            await session.relaunch(set={"NCCL_DEBUG": "INFO"})
            until(lambda: READY in pane.text())
            assert pane.run("show-options", "-pv", "-t", "work", "remain-on-exit") == ""
    finally:
        pane.run("kill-server")


@needs_tmux
async def test_a_pane_that_is_used_for_something_else_is_left_alone(shell: Tmux) -> None:
    port = free_port()
    shell.type(f"{server(port)} &")
    async with agent() as session:
        await attached(session, port)
        shell.type("cat")
        assert (await session.relaunch_plan())["output"] == [
            "not where it went before: it runs in the background of tmux pane work:0.0"
        ]
        shell.clear()
        await session.relaunch(set={"NCCL_DEBUG": "INFO"})
        shell.type("still cat")
        until(lambda: shell.text().count("still cat") == 2)
        assert "tail" not in shell.text()


@needs_tmux
async def test_a_pane_that_is_taken_meanwhile_is_left_alone(shell: Tmux) -> None:
    port = free_port()
    shell.type(server(port))
    async with agent() as session:
        await attached(session, port)
        shell.clear()
        await session.relaunch(set={"NCCL_DEBUG": "INFO"})
        until(lambda: READY in shell.text())
        shell.run("send-keys", "-t", "work", "C-c")
        shell.type("cat")
        shell.clear()
        before = session.model
        await session.relaunch(set={"NCCL_DEBUG": "WARN"})
        told = [one.text for some in before.actions.values() for one in some if one.step == "output"]
        assert told == ["tmux pane work:0.0 is left alone: something else runs in it"]
        assert "tail" not in shell.text()


@needs_tmux
async def test_file_and_pane_behind_a_tee_both_get_it_again(shell: Tmux, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "by-hand.log"
    shell.type(f"{server(port)} 2>&1 | tee {log}")
    async with agent() as session:
        await attached(session, port)
        assert (await session.relaunch_plan())["output"] == [
            f"appended to {log}, where it went before",
            "shown in tmux pane work:0.0 again",
        ]
        shell.clear()
        await session.relaunch(set={"NCCL_DEBUG": "INFO"})
        until(lambda: READY in shell.text() and log.read_text().count(READY) == 2)


async def test_a_file_is_appended_by_every_attempt_and_ends_with_it(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "by-hand.log"
    with fake_servers.session_of("/bin/sh", "-c", f"exec {server(port)} > {log} 2>&1"):
        async with agent() as session:
            await attached(session, port)
            second = await session.relaunch(set={"NCCL_DEBUG": "INFO"})
            until(lambda: log.read_text().count(READY) == 2)
            await session.relaunch(set={"NCCL_DEBUG": "WARN"})
            until(lambda: log.read_text().count(READY) == 3)
            until(lambda: not [pid for pid in proc.pids() if f"--pid={second.pid}" in proc.cmdline(pid)])


async def test_what_cannot_have_the_output_again_is_said_and_stops_nothing(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "by-hand.log"
    with fake_servers.session_of("/bin/sh", "-c", f"exec {server(port)} > {log} 2>&1"):
        async with agent() as session:
            await attached(session, port)
            log.unlink()
            # What it wrote to when it was attached counts: it may have been rotated since.
            assert (await session.relaunch_plan())["output"] == [f"appended to {log}, where it went before"]
            shutil.rmtree(tmp_path)
            run = await session.relaunch(set={"NCCL_DEBUG": "INFO"})
            await eventually(lambda: any(notice.source == "output" for notice in session.model.notices))
            assert run.attempt == 2
