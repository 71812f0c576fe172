"""Relaunching on real processes: the cure of the demo's dead-lock, the ledger, the ladder, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from launchmon.demo.scenarios import demo_command
from launchmon.session import Session
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run, Stacks
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.recording import happenings
from launchmon_agent.sensors import proc
from tests.support import fake_servers
from tests.support.client import agent, eventually, verdict
from tests.support.ports import free_port
from tests.support.waiting import until

SOURCE = Path(__file__).resolve().parents[2] / "src"
SPEED = 8.0
SECRET = "hf_" + "x" * 24


async def launch(session: Session, scenario: str, *flags: str, **env: str) -> Run:
    argv, changes = demo_command(scenario, free_port(), speed=SPEED)
    return await session.launch(argv=[*argv, *flags], env={**changes, **env})


def place_of(run: Run) -> RunDirectory:
    place = directory.find(run.id)
    assert place is not None
    return place


async def stuck(session: Session) -> None:
    await eventually(lambda: verdict(session) == "deadlock-silent")


pytestmark = pytest.mark.usefixtures("ended")


async def test_the_first_remedy_cures_the_dead_lock_and_the_ledger_tells_it() -> None:
    async with agent() as session:
        first = await launch(session, "seed", HF_TOKEN=SECRET)
        await stuck(session)
        before = session.model
        options = await session.relaunch_options()
        assert options["remedies"][0]["change"] == ["--disable-cuda-graph"]
        assert {"graphs-off", "nccl-debug"} <= {toggle["id"] for toggle in options["toggles"]}
        assert SECRET not in json.dumps(options)

        second = await session.relaunch(add=["--disable-cuda-graph"], set={"NCCL_DEBUG": "WARN"})
        assert session.model is not before and session.model.run is not None
        assert session.model.run.id == second.id != first.id
        assert (second.attempt, second.parent, second.series) == (2, first.id, first.id)
        assert first.pid is not None and not psutil.pid_exists(first.pid)
        await eventually(lambda: verdict(session) in ("ready", "crashed"))
        assert verdict(session) == "ready"

        assert second.pid is not None
        environ = psutil.Process(second.pid).environ()
        assert (environ["HF_TOKEN"], environ["NCCL_DEBUG"]) == (SECRET, "WARN")
        assert place_of(first).path not in environ["PYTHONPATH"]  # the hook of the attempt before
        assert SECRET not in (Path(place_of(second).path) / "run.json").read_text()
        assert any(isinstance(event, Stacks) for event in happenings(place_of(first)))  # the evidence

        ledger = await session.ledger()
        one, two = ledger["attempts"]
        assert (one["verdict"], one["phase"], one["ended_by"]) == ("deadlock-silent", "kv-pool", "launchmon")
        assert two["change"] == ["+ --disable-cuda-graph", "+ NCCL_DEBUG=WARN"]
        assert two["ready_s"] is not None and two["alive"] and ledger["best"] == second.id
        assert {"weights", "kv-pool"} <= set(one["seconds"]) & set(two["seconds"])
        assert ledger["since_it_worked"] is None and SECRET not in json.dumps(ledger)

        third = await session.relaunch(back_to=first.id, set={"NCCL_DEBUG": "INFO"})
        assert third.attempt == 3 and "--disable-cuda-graph" not in third.argv
        assert third.pid is not None and psutil.Process(third.pid).environ()["HF_TOKEN"] == SECRET
        ledger = await session.ledger()
        assert ledger["since_it_worked"] == ["- --disable-cuda-graph", "~ NCCL_DEBUG=WARN → INFO"]
        rows = {row["id"]: row for row in await session.request("runs")}
        assert (rows[third.id]["series"], rows[third.id]["attempt"], rows[third.id]["parent"]) == (
            first.id,
            3,
            second.id,
        )


async def test_what_sglang_would_not_take_is_refused_before_anything_is_ended() -> None:
    async with agent() as session:
        run = await launch(session, "seed")
        await eventually(lambda: session.model.processes is not None)
        with pytest.raises(Refused) as caught:
            await session.relaunch(add=["--disable-cuda-grpah"])
        assert caught.value.try_ == "--add --disable-cuda-graph"
        with pytest.raises(Refused, match="/nowhere/model does not exist"):
            await session.relaunch(add=["--model-path=/nowhere/model"])
        plan = await session.relaunch_plan(drop=["--speed"], set={"HF_TOKEN": SECRET})
        assert plan["difference"] == [f"- --speed {SPEED:g}", "+ HF_TOKEN=•••"]
        assert "HF_TOKEN='•••'" in plan["command"] and "--speed" not in plan["command"]
        assert run.pid is not None and psutil.pid_exists(run.pid)


async def test_a_foreign_process_on_the_port_is_named_and_nothing_is_ended() -> None:
    async with agent() as session:
        run = await launch(session, "seed")
        await eventually(lambda: session.model.phases.run_phase() == "kv-pool")  # its port is not open yet
        with socket.socket() as held:
            held.bind(("127.0.0.1", run.port or 0))
            held.listen()
            with pytest.raises(Refused, match=f"Port {run.port} is held by process {os.getpid()}"):
                await session.relaunch(add=["--disable-cuda-graph"])
            assert run.pid is not None and psutil.Process(run.pid).status() != psutil.STATUS_ZOMBIE
            moved = await session.relaunch(add=["--disable-cuda-graph", f"--port={free_port()}"])
        assert moved.attempt == 2 and moved.port != run.port


async def test_a_server_that_ignores_term_and_a_stopped_rank_are_gone_before_the_next_attempt() -> None:
    async with agent() as session:
        argv = fake_servers.command("--tp", "2", "--on-term", "ignore", "--stopped", "1", port=free_port())
        first = await session.launch(argv=argv, env={"PYTHONPATH": fake_servers.FAKES})
        assert first.pid is not None
        until(lambda: "sglang::scheduler_TP1" in fake_servers.titles(first.pid or 0))
        await eventually(lambda: session.model.processes is not None)
        old = session.model
        second = await session.relaunch(set={"NCCL_DEBUG": "INFO"})
        steps = {step.step for some in old.actions.values() for step in some}
        assert {"KILL ranks", "KILL launcher"} <= steps
        assert not [row for row in proc.table().values() if row.session == first.pid and not row.dead]
        assert second.attempt == 2


async def test_a_run_that_has_ended_is_relaunched_with_what_is_recorded() -> None:
    async with agent() as session:
        first = await launch(session, "seed", NCCL_DEBUG="WARN")
        await session.kill(force=True)
    keeper = place_of(first).read()
    assert keeper is not None and keeper.keeper is not None
    os.kill(keeper.keeper.pid, signal.SIGTERM)
    await eventually(lambda: not psutil.pid_exists(keeper.keeper.pid if keeper.keeper else 0))
    async with agent() as session:
        await session.attach(run=first.id)
        second = await session.relaunch(add=["--disable-cuda-graph"])
        await eventually(lambda: verdict(session) == "ready")
        assert second.pid is not None and psutil.Process(second.pid).environ()["NCCL_DEBUG"] == "WARN"


async def test_a_secret_that_nobody_knows_any_more_has_to_be_given_again() -> None:
    async with agent() as session:
        first = await launch(session, "seed", HF_TOKEN=SECRET)
        await session.kill(force=True)
        plan = await session.relaunch_plan()
        assert plan["environment"] == "that of the server before it ended"
    async with agent() as session:
        await session.attach(run=first.id)
        with pytest.raises(Refused, match="HF_TOKEN is not known any more"):
            await session.relaunch(add=["--disable-cuda-graph"])
        second = await session.relaunch(add=["--disable-cuda-graph"], set={"HF_TOKEN": "another"})
        assert second.parent == first.id


async def test_a_run_started_by_hand_becomes_a_launched_one(tmp_path: Path) -> None:
    argv, env = demo_command("healthy", free_port(), speed=SPEED)
    log = tmp_path / "by-hand.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            argv, env={**os.environ, **env, "MARK": "kept"}, stdout=output, stderr=output, start_new_session=True
        )
    reaper = asyncio.create_task(asyncio.to_thread(server.wait))
    try:
        async with agent() as session:

            async def found() -> bool:
                return any(item["pid"] == server.pid for item in await session.request("runs"))

            while not await found():
                await asyncio.sleep(0.1)
            await session.attach(pid=server.pid)
            await eventually(lambda: verdict(session) == "ready")
            with pytest.raises(Refused, match="no attempts are recorded"):
                await session.ledger()
            size = log.stat().st_size
            run = await session.relaunch(add=["--log-level=debug"])
            assert (run.launched, run.attempt, run.parent) == (True, 2, run.series)
            assert run.pid is not None and psutil.Process(run.pid).environ()["MARK"] == "kept"
            await eventually(lambda: verdict(session) == "ready")
            assert run.argv[-2:] == ("--log-level", "debug")
            await eventually(lambda: log.stat().st_size > size + 1000)  # it writes there too

            one, two = (await session.ledger())["attempts"]  # what was seen of the first is kept
            assert (one["verdict"], one["phase"], one["ended_by"]) == ("ready", "ready", "launchmon")
            assert one["ready_s"] is not None and "weights" in one["seconds"] and two["parent"] == one["id"]
            assert [row["launched"] for row in await session.request("runs") if row["series"] == run.series] == [
                True,
                False,
            ]
            back = await session.relaunch(back_to=one["id"])
            assert "--log-level" not in back.argv and back.attempt == 3
        async with agent() as session:
            first = await session.attach(run=one["id"])
            assert not first.launched and session.model.marks("ready")
        await reaper
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)


def launchmon(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from launchmon.cli import main; main()", *args],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        check=False,
    )


async def test_the_verb_says_what_it_would_do_and_the_ladder_finds_the_cure_alone() -> None:
    async with agent() as session:
        run = await launch(session, "seed")
    dry = launchmon("relaunch", run.id, "--add", "--disable-cuda-graph", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "  + --disable-cuda-graph\n" in dry.stdout and dry.stdout.rstrip().endswith("--disable-cuda-graph")
    wrong = launchmon("relaunch", run.id, "--add", "--disable-cuda-grpah", "--dry-run")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "--disable-cuda-graph" in wrong.stderr
    assert run.pid is not None and psutil.pid_exists(run.pid)

    climbed = await asyncio.to_thread(launchmon, "relaunch", run.id, "--ladder", "--attempts", "2", "--json")
    assert climbed.returncode == 0, climbed.stderr
    ledger: dict[str, Any] = json.loads(climbed.stdout)
    assert [row["verdict"] for row in ledger["attempts"]] == ["deadlock-silent", "ready"]
    assert ledger["attempts"][1]["change"] == ["+ --disable-cuda-graph"]
    shown = launchmon("runs", "--series", run.id)
    assert "* 2" in shown.stdout and "2: + --disable-cuda-graph" in shown.stdout


def test_the_ladder_chooses_by_itself() -> None:
    done = launchmon("relaunch", "x", "--ladder", "--add", "--y")
    assert done.returncode == 2 and "--ladder chooses the changes itself" in done.stderr
