"""The main job, end to end on real processes: a simulated server, its keeper, the agent over its pipe, the client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from launchmon.connect import Nobody
from launchmon.connect.opening import open_pipe
from launchmon.connect.target import LOCAL
from launchmon.demo.scenarios import demo_command
from launchmon.session import Session
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import RunDirectory, RunFile
from tests.support.client import agent, eventually, phases, verdict
from tests.support.ports import free_port

SPEED = 8.0


async def launch(session: Session, scenario: str, *flags: str, **more: Any) -> Run:
    argv, env = demo_command(scenario, free_port(), speed=SPEED)
    return await session.launch(argv=[*argv, *flags], env=dict(env), **more)


def file_of(run: Run) -> RunFile:
    place = directory.find(run.id)
    assert place is not None
    file = place.read()
    assert file is not None
    return file


pytestmark = pytest.mark.usefixtures("ended")


async def test_a_launch_goes_through_every_phase_to_ready_and_is_killed() -> None:
    async with agent() as session:
        run = await launch(session, "healthy", name="first")
        assert run.launched and run.simulated and run.name == "first"
        await eventually(lambda: verdict(session) in ("ready", "crashed"))
        assert verdict(session) == "ready", session.model.verdict
        states = {cell.phase: cell.state for cell in session.model.phases.rail(session.model.now)}
        seen = {"start", "spawn", "dist-init", "weights", "kv-pool", "graphs", "http", "warm-up", "ready"}
        assert set(states) >= seen
        assert not {"pending", "failed", "skipped"} & set(states.values())
        rows = session.model.rank_rows()
        assert [row.rank for row in rows] == [f"TP{n}" for n in range(run.tp)]
        assert all(psutil.Process(row.pid).cmdline()[0] == f"sglang::scheduler_{row.rank}" for row in rows)
        assert session.model.gpus is not None and session.model.gpus.source == "simulated"
        assert session.model.http is not None and session.model.http.ours is True

        pids = [process.pid for process in session.model.processes.processes] if session.model.processes else []
        assert {pid for pid, *_ in await session.kill_plan()} >= {row.pid for row in rows}
        result = await session.kill()
        assert result["leftovers"] == []
        assert not any(psutil.pid_exists(pid) for pid in pids)
        await eventually(lambda: verdict(session) == "stopped" and session.model.launcher_exit)
        assert any(step.state == "done" for steps in session.model.actions.values() for step in steps)


async def test_a_server_outlives_client_agent_and_keeper_and_is_adopted_with_the_same_phases() -> None:
    async with agent() as session:
        run = await launch(session, "healthy")
        await eventually(lambda: verdict(session) == "ready")
        before = phases(session)
        hello = session.hello
        assert hello is not None
        os.kill(hello.pid, signal.SIGKILL)
        await eventually(lambda: session.link.state == "lost")
    keeper = file_of(run).keeper
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    await eventually(lambda: not psutil.pid_exists(keeper.pid))
    assert run.pid is not None and psutil.Process(run.pid).status() != psutil.STATUS_ZOMBIE

    async with agent() as session:
        again = await session.attach(run=run.id)
        assert (again.pid, again.start_time) == (run.pid, run.start_time)
        await eventually(lambda: verdict(session) == "ready" and len(phases(session)) == len(before))
        assert phases(session) == before
        adopted = file_of(run).keeper
        assert adopted is not None and adopted.pid != keeper.pid


async def test_a_keeper_that_dies_under_a_client_is_replaced_without_a_word_lost() -> None:
    async with agent() as session:
        run = await launch(session, "seed")
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
        keeper = file_of(run).keeper
        assert keeper is not None
        os.kill(keeper.pid, signal.SIGKILL)
        await eventually(lambda: any(note.source == "keeper" for note in session.model.notices))
        assert session.link.state == "live"
        window = await session.window("end", 5, 0)
        assert window.lines and window.at_end
        await session.kill(force=True)


async def test_a_socket_that_was_removed_comes_back() -> None:
    async with agent() as session:
        run = await launch(session, "seed")
        place = file_of(run).socket
        assert place is not None
        os.unlink(place)
    await eventually(lambda: os.path.exists(place))
    async with agent() as session:
        await session.attach(run=run.id)
        await session.kill(force=True)


async def test_two_clients_see_the_same_and_only_one_may_kill() -> None:
    async with agent() as first, agent() as second:
        run = await launch(first, "healthy")
        await second.attach(run=run.id)
        await eventually(lambda: verdict(first) == "ready" and verdict(second) == "ready")
        assert phases(first) == phases(second)
        results = await asyncio.gather(first.kill(), second.kill(), return_exceptions=True)
        refusals = [result for result in results if isinstance(result, Refused)]
        assert len(refusals) == 1, results
        await eventually(lambda: verdict(first) == "stopped" and verdict(second) == "stopped")


async def test_a_rank_that_is_killed_is_a_crash_that_blames_it() -> None:
    async with agent() as session:
        await launch(session, "seed")
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
        await eventually(lambda: all(row.pid for row in session.model.rank_rows()))
        victim = session.model.rank_rows()[3]
        os.kill(victim.pid, signal.SIGKILL)
        await eventually(lambda: verdict(session) == "crashed")
        assert session.model.verdict is not None and "TP3" in session.model.verdict.blames


async def test_a_crashed_run_can_still_be_looked_at() -> None:
    async with agent() as session:
        run = await launch(session, "seed")
        await eventually(lambda: session.model.phases.run_phase() == "weights")
        assert run.pid is not None
        os.kill(run.pid, signal.SIGKILL)
        await eventually(lambda: verdict(session) == "crashed")
        assert session.model.launcher_exit is not None and session.model.launcher_exit.code == -signal.SIGKILL
    keeper = file_of(run).keeper
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGTERM)
    await eventually(lambda: not psutil.pid_exists(keeper.pid))
    async with agent() as session:
        await session.attach(run=run.id)
        await eventually(lambda: verdict(session) == "crashed")
        assert session.model.launcher_exit is not None and session.model.launcher_exit.code == -signal.SIGKILL
        assert (await session.window(0, 0, 3)).lines


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/nowhere/python", "-m", "sglang.launch_server"], "/nowhere/python"),
        (["no-such-program-here"], "no-such-program-here"),
        ([sys.executable, "-m", "sglang.launch_server", "--model-path", "/nowhere/model"], "/nowhere/model"),
        ([], "no command"),
    ],
)
async def test_a_command_that_cannot_start_is_refused_and_leaves_nothing(argv: list[str], words: str) -> None:
    before = [place.id for place, _ in directory.runs()]
    async with agent() as session:
        with pytest.raises(Refused) as caught:
            await session.launch(argv=argv)
        assert words in f"{caught.value.what} {caught.value.cause}"
        assert [place.id for place, _ in directory.runs()] == before
        assert await session.request("runs") is not None  # the agent goes on


async def test_a_port_in_use_is_refused_before_the_start() -> None:
    async with agent() as first, agent() as second:
        argv, env = demo_command("seed", free_port(), speed=SPEED)
        import socket

        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            held.listen()
            port = held.getsockname()[1]
            command = [port if word == argv[argv.index("--port") + 1] else word for word in argv]
            with pytest.raises(Refused, match=f"(?i)port {port} is in use"):
                await first.launch(argv=[str(word) for word in command], env=dict(env))
        await second.request("runs")


async def test_an_attached_foreign_run_is_only_watched(tmp_path: Path) -> None:
    argv, env = demo_command("healthy", free_port(), speed=SPEED)
    log = tmp_path / "by-hand.log"
    with log.open("wb") as output:
        server = subprocess.Popen(argv, env={**os.environ, **env}, stdout=output, stderr=output, start_new_session=True)
    try:
        async with agent() as session:

            async def found() -> bool:
                return any(item["pid"] == server.pid for item in await session.request("runs"))

            while not await found():
                await asyncio.sleep(0.1)
            run = await session.attach(pid=server.pid)
            assert (run.launched, run.log, run.log_source) == (False, str(log), "file")
            await eventually(lambda: verdict(session) == "ready")
        assert server.poll() is None
        async with agent() as session:  # at another moment of its life: the phases come from the log
            await session.attach(pid=server.pid)
            await eventually(lambda: verdict(session) == "ready")
            await session.kill()
        server.wait(10)
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


async def test_a_run_tied_to_its_watchers_ends_with_them() -> None:
    async with agent() as session:
        run = await launch(session, "seed", while_watched=True)
        await eventually(lambda: session.model.rank_rows()[0].pid)
        pids = [row.pid for row in session.model.rank_rows()]
    await eventually(lambda: not any(psutil.pid_exists(pid) for pid in [*pids, run.pid]))


async def test_an_agent_goes_when_its_pipe_closes() -> None:
    session = await Session.open(lambda: open_pipe(LOCAL, Nobody()))
    assert session.hello is not None
    pid = session.hello.pid
    await session.close()
    assert session.link.message == ""
    assert not psutil.pid_exists(pid)


def test_the_directory_of_a_run_is_private(tmp_path: Path) -> None:
    place = directory.create(("x",), root=str(tmp_path / "runs"))
    assert isinstance(place, RunDirectory)
    assert (os.stat(place.path).st_mode & 0o777) == 0o700
    assert (os.stat(os.path.join(place.path, "run.json")).st_mode & 0o777) == 0o600
    assert json.loads((Path(place.path) / "run.json").read_text())["argv"] == ["x"]
