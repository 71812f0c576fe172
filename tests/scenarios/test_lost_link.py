"""A real agent behind a link that is cut, falls silent, and comes back: the server unharmed, nothing missing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from launchmon.connect import target
from launchmon.demo.scenarios import demo_command
from launchmon.link import conversation
from launchmon.session import Session
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run
from launchmon_agent.runs import directory
from tests.support.client import PATIENCE_S, agent, assert_same_log, eventually, phases, verdict
from tests.support.demo import DemoServer
from tests.support.link_process import LinkProcess
from tests.support.ports import free_port

SOURCE = Path(__file__).resolve().parents[2] / "src"
SPEED = 8.0


pytestmark = pytest.mark.usefixtures("ended")


@pytest.fixture
def link(tmp_path: Path) -> LinkProcess:
    return LinkProcess(tmp_path / "link")


async def launch(session: Session, scenario: str, *, speed: float = SPEED) -> Run:
    argv, env = demo_command(scenario, free_port(), speed=speed)
    return await session.launch(argv=list(argv), env=dict(env))


async def test_a_link_that_is_down_for_a_while_during_a_launch_leaves_no_hole(link: LinkProcess) -> None:
    async with agent(target.via(link.prefix)) as session:
        run = await launch(session, "healthy", speed=3.0)
        await eventually(lambda: session.model.phases.run_phase() == "weights")
        window = await session.window("end", 3, 0)
        link.down()
        link.cut()
        await eventually(lambda: session.link.state == "lost")
        await eventually(lambda: "No route to host" in session.link.message)
        with pytest.raises(Refused, match="lost"):
            await session.window("end", 3, 0)
        assert session.model.log is not None
        lost_at, known = session.model.now, session.model.log.size
        async with agent() as beside:  # somebody at the machine sees it go on meanwhile
            await beside.attach(run=run.id)
            await eventually(lambda: beside.model.phases.run_phase() not in ("weights", None))
            await eventually(lambda: beside.model.log is not None and beside.model.log.size > known)
            link.up()
            await eventually(lambda: session.link.state == "live")
            await eventually(lambda: verdict(session) == "ready" and verdict(beside) == "ready")
            await eventually(lambda: session.log_is_read and beside.log_is_read)
            assert phases(session) == phases(beside)
            assert session.model.all_marks == beside.model.all_marks
            assert session.model.exits == beside.model.exits == []
            await assert_same_log(session, beside)
            # what was on the screen before is in the same place
            again = await session.window(window.lines[0].offset, 0, 2)
            assert [line.text for line in again.lines] == [line.text for line in window.lines[:2]]
            assert again.generation == window.generation
        samples = session.model.samples.of_gpu(0)
        assert None not in samples and len(samples) > 3
        assert session.model.now > lost_at
    assert run.pid is not None and psutil.pid_exists(run.pid)


async def test_a_link_that_falls_silent_is_noticed_and_replaced(
    link: LinkProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "SILENT_S", 2.0)
    monkeypatch.setattr(conversation, "ANSWER_S", 1.0)
    async with agent(target.via(link.prefix)) as session:
        run = await launch(session, "seed")
        first = session.hello
        link.freeze()
        await eventually(lambda: session.link.state == "lost")
        assert "nothing came" in session.link.message
        await eventually(lambda: session.link.state == "live")
        assert session.hello is not None and first is not None and session.hello.pid != first.pid
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
        assert session.model.run is not None and session.model.run.id == run.id


async def test_a_local_agent_that_is_killed_is_started_again() -> None:
    async with agent() as session:
        await launch(session, "seed")
        first = session.hello
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        await eventually(lambda: session.link.state == "lost")
        await eventually(lambda: session.link.state == "live")
        assert session.hello is not None and session.hello.pid != first.pid
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")


async def test_a_kill_goes_on_without_the_link_and_is_reported_as_done(link: LinkProcess) -> None:
    async with agent(target.via(link.prefix)) as session:
        run = await launch(session, "seed")
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
        killing = asyncio.create_task(session.kill())
        await eventually(lambda: any(step.step == "wait" for steps in session.model.actions.values() for step in steps))
        link.cut()
        assert run.pid is not None
        result = await killing
        assert result["leftovers"] == [] and not psutil.pid_exists(run.pid)
        await eventually(
            lambda: [step.step for steps in session.model.actions.values() for step in steps].count("done") == 1
        )


async def test_a_kill_that_never_arrived_is_not_done_and_is_never_done_later(
    link: LinkProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "SILENT_S", 2.0)
    monkeypatch.setattr(conversation, "ANSWER_S", 1.0)
    async with agent(target.via(link.prefix)) as session:
        run = await launch(session, "seed")
        assert session.hello is not None and run.pid is not None
        stopped = session.hello.pid
        os.kill(stopped, signal.SIGSTOP)  # the request reaches its pipe, and is read only later
        with pytest.raises(Refused) as caught:
            await session.kill()
        assert caught.value.what == "the kill: not done, the run is as it was"
        assert session.link.state == "live"
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGCONT)
        await eventually(lambda: not psutil.pid_exists(stopped))
        assert psutil.pid_exists(run.pid)


async def test_a_launch_and_a_relaunch_that_were_cut_off_are_followed(link: LinkProcess) -> None:
    async with agent(target.via(link.prefix)) as session:
        before = len(list(directory.runs()))
        launching = asyncio.create_task(launch(session, "seed"))
        await eventually(lambda: len(list(directory.runs())) > before)
        link.cut()
        run = await launching
        assert session.model.run is not None and session.model.run.id == run.id
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
        relaunching = asyncio.create_task(session.relaunch(force=True))
        await eventually(lambda: session.model.actions)
        link.cut()
        second = await relaunching
        assert second.attempt == 2 and session.model.run.id == second.id
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
        assert len([place for place, file in directory.runs() if file.series == run.id]) == 2


async def test_a_server_that_was_started_by_hand_is_followed_again_or_said_to_have_gone(
    link: LinkProcess, tmp_path: Path
) -> None:
    server = DemoServer(tmp_path / "server", "--scenario", "seed", "--speed", "8")
    try:
        await eventually(lambda: "Load weight begin" in server.log)
        async with agent(target.via(link.prefix)) as session:
            await session.attach(pid=server.process.pid)
            await eventually(lambda: session.model.phases.run_phase() == "kv-pool" and session.log_is_read)
            before, marks = phases(session), session.model.all_marks
            await eventually(lambda: len(session.model.samples.of_gpu(0)) > 1)
            link.cut()
            await eventually(lambda: session.link.state == "lost")
            await eventually(lambda: session.link.state == "live")
            await eventually(lambda: session.log_is_read and session.model.samples.of_gpu(0)[-1] is not None)
            assert phases(session) == before and session.model.all_marks == marks
            assert None in session.model.samples.of_gpu(0)
            link.down()
            link.cut()
            await eventually(lambda: session.link.state == "lost")
            server.end()
            link.up()
            await eventually(lambda: session.link.state == "ended")
            assert session.link.message == f"the server (process {server.process.pid}) ended while the link was down"
    finally:
        server.end()


async def test_a_server_that_ends_while_the_link_is_down_is_seen_to_have_ended(link: LinkProcess) -> None:
    async with agent(target.via(link.prefix)) as session:
        run = await launch(session, "seed")
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
        link.down()
        link.cut()
        await eventually(lambda: session.link.state == "lost")
        assert run.pid is not None
        os.kill(run.pid, signal.SIGKILL)
        await eventually(lambda: not psutil.pid_exists(run.pid or 0))
        link.up()
        await eventually(lambda: session.link.state == "live")
        await eventually(lambda: session.model.launcher_exit is not None and verdict(session) == "crashed")
        assert session.model.launcher_exit is not None and session.model.launcher_exit.code == -9


async def test_the_verb_that_waits_outlives_the_link(link: LinkProcess) -> None:
    async with agent() as beside:
        run = await launch(beside, "healthy", speed=1.0)  # the verb has to be there well before it is ready
        waiting = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from launchmon.cli import main; main()"),
            *("wait", "--via", link.prefix, run.id),
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert waiting.stderr is not None
        await eventually(lambda: beside.model.phases.run_phase() == "weights")
        await eventually(link.is_there)
        link.down()
        link.cut()
        assert b"is lost: the agent ended" in await asyncio.wait_for(waiting.stderr.readline(), PATIENCE_S)
        await eventually(lambda: verdict(beside) == "ready")
        link.up()
        printed, told = await asyncio.wait_for(waiting.communicate(), PATIENCE_S)
        assert waiting.returncode == 0, told
        assert b"ready" in printed.lower()
