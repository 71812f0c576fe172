"""A launch over SSH whose cable is pulled, and whose sshd is killed: as it looks from a laptop."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from launchmon.connect import target
from launchmon.demo.scenarios import demo_command
from launchmon.session import Session
from launchmon_agent.events import Run
from tests.support.client import agent, assert_same_log, eventually, phases, verdict
from tests.support.hosts import Hosts, needs_hosts
from tests.support.ports import free_port
from tests.support.sshd import ClientHome, Sshd, needs_sshd

pytestmark = needs_sshd

DOWN_S = 30.0
"""Longer than it takes to notice: an agent is asked after 8 s of silence, and has 8 s to answer."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ClientHome]:
    with ClientHome(tmp_path / "home") as home:
        yield home


async def launch(session: Session, scenario: str, speed: float) -> Run:
    argv, env = demo_command(scenario, free_port(), speed=speed)
    return await session.launch(argv=list(argv), env=dict(env), login=True)


@needs_hosts
async def test_a_cable_that_is_pulled_for_half_a_minute_harms_nothing(home: ClientHome, tmp_path: Path) -> None:
    with (
        Hosts(1) as (host,),
        Sshd(tmp_path / "box", home, address=host.address, port=2222, prefix=host.words) as box,
    ):
        home.add_host("box", box)
        state = shlex.join(["env", f"XDG_STATE_HOME={box.state_home}", f"XDG_RUNTIME_DIR={box.sockets}"])
        at_the_machine = target.via(f"{host.prefix} {state}")
        async with agent(target.ssh("box")) as session:
            run = await launch(session, "healthy", speed=1.4)
            await eventually(lambda: session.model.phases.run_phase() == "weights")
            host.cut()
            await asyncio.sleep(DOWN_S)
            assert session.link.state == "lost" and session.age() > DOWN_S / 2
            host.mend()
            await eventually(lambda: session.link.state == "live")
            async with agent(at_the_machine) as beside:
                await beside.attach(run=run.id)
                await eventually(lambda: verdict(session) == "ready" and verdict(beside) == "ready")
                await eventually(lambda: session.log_is_read and beside.log_is_read)
                assert phases(session) == phases(beside)
                assert session.model.all_marks == beside.model.all_marks
                assert session.model.exits == [] and session.model.errors == beside.model.errors
                await assert_same_log(session, beside)
            samples = session.model.samples.of_gpu(0)
            assert None not in samples and len(samples) > DOWN_S
            assert (await session.kill(force=True))["leftovers"] == []


async def test_an_sshd_that_is_killed_takes_neither_server_nor_view_with_it(home: ClientHome, tmp_path: Path) -> None:
    with Sshd(tmp_path / "box", home) as box:
        home.add_host("box", box)
        async with agent(target.ssh("box")) as session:
            run = await launch(session, "seed", speed=8.0)
            assert run.pid is not None
            await eventually(lambda: session.model.phases.run_phase() == "kv-pool")
            box.stop()
            await eventually(lambda: session.link.state == "lost")
            await eventually(lambda: "refused the connection" in session.link.message)
            assert psutil.pid_exists(run.pid)
            box.start()
            await eventually(lambda: session.link.state == "live")
            assert session.model.phases.run_phase() == "kv-pool"
            assert (await session.kill(force=True))["leftovers"] == []


async def test_a_host_key_that_changes_while_the_link_is_lost_stops_the_attempts(
    home: ClientHome, tmp_path: Path
) -> None:
    with Sshd(tmp_path / "box", home) as box:
        home.add_host("box", box)
        async with agent(target.ssh("box")) as session:
            box.stop()
            box.change_key()
            box.start()
            await eventually(lambda: session.link.state == "ended")
            assert "the host key of box has changed" in session.link.message


async def test_a_server_far_away_begins_as_its_login_does(home: ClientHome, tmp_path: Path) -> None:
    with Sshd(tmp_path / "box", home) as box:
        home.add_host("box", box)
        (box.login_home / ".profile").write_text("echo Welcome; export OF_THE_PROFILE=1\n")
        async with agent(target.ssh("box")) as session:
            run = await launch(session, "seed", speed=8.0)
            assert run.pid is not None and run.cwd == str(box.login_home)
            environ = psutil.Process(run.pid).environ()
            assert environ["OF_THE_PROFILE"] == "1" and environ["HOME"] == str(box.login_home)
            assert os.getsid(run.pid) == run.pid
            await eventually(lambda: any("that of a login shell" in note.text for note in session.model.notices))
        async with agent(target.ssh("box")) as other:  # another client, by the run's id
            assert (await other.attach(run=run.id)).pid == run.pid
            assert (await other.kill(force=True))["leftovers"] == []
