"""What the launch form asks of a real agent, and the launch that it ends with."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from launchmon.cli.beginning import SessionLauncher
from launchmon.cli.common import open_on
from launchmon.connect.target import LOCAL, Target, via
from launchmon.demo.scenarios import demo_command
from launchmon.tui.launch.form import installed_of
from launchmon_agent.errors import Refused
from tests.support.ports import free_port


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


async def launcher_on(where: Target, begun: list[Sequence[Target] | None]) -> SessionLauncher:
    session = await open_on(where, attended=False)
    return SessionLauncher(session, where, lambda one: one, begun.append)


async def test_a_launch_from_the_first_question_to_a_followed_run(tmp_path: Path) -> None:
    begun: list[Sequence[Target] | None] = []
    launcher = await launcher_on(LOCAL, begun)
    session: Any = None
    try:
        installed = installed_of(await launcher.options(sys.executable))
        assert installed.python == sys.executable and installed.cwd == os.getcwd()
        (tmp_path / "models" / "kimi").mkdir(parents=True)
        found = await launcher.directories(f"{tmp_path}/models/k")
        assert [one["path"] for one in found["directories"]] == [f"{tmp_path}/models/kimi"]

        argv, env = demo_command("healthy", free_port(), speed=8.0)
        assert (await launcher.plan(argv, env))["refused"] is None
        assert begun == []
        session = await launcher.launch(argv, env, anyway=False)
        assert begun == [(LOCAL,)]
        assert (
            session.model.run is not None and session.model.run.launched and list(session.model.run.argv) == list(argv)
        )
        with pytest.raises(Refused):  # it is followed now, and its port is taken or will be
            await launcher.launch(("/no/such/program",), {}, anyway=False)
    finally:
        if session is not None:
            await session.kill(force=True)
        await launcher.close()


async def test_what_cannot_start_is_told_by_the_plan_as_by_the_launch() -> None:
    launcher = await launcher_on(LOCAL, [])
    try:
        argv = (sys.executable, "-m", "sglang.launch_server", "--model-path", "/no/such/model")
        plan = await launcher.plan(argv, {})
        with pytest.raises(Refused) as refused:
            await launcher.launch(argv, {}, anyway=False)
        assert plan["refused"]["what"] == refused.value.what
    finally:
        await launcher.close()


async def test_on_another_machine_it_starts_from_the_home_of_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    launcher = await launcher_on(via("env"), [])
    try:
        options = await launcher.options(None)
        assert os.path.samefile(options["cwd"], os.path.expanduser("~"))
        assert launcher.target == "env"
    finally:
        await launcher.close()
