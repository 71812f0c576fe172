"""A Slurm job as the verbs see it, asked for here and on a login node."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon.connect import Nobody, slurm
from launchmon.connect.target import ssh
from launchmon_agent.errors import Refused
from launchmon_agent.runs.directory import create
from tests.scenarios.test_cli import launchmon
from tests.support.client import agent
from tests.support.fake_slurm import FakeSlurm
from tests.support.sshd import ClientHome, Sshd, needs_sshd


@pytest.fixture
def cluster(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


@pytest.fixture
def login(cluster: FakeSlurm, tmp_path: Path) -> Iterator[Sshd]:
    with ClientHome(tmp_path / "home") as home, Sshd(tmp_path / "login", home) as server:
        home.add_host("login", server)
        (server.login_home / ".bashrc").write_text(f"export PATH={cluster.path}:$PATH\n")
        yield server


def test_runs_are_listed_node_by_node(cluster: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = create(("python", "-m", "sglang.launch_server", "--model-path", "m"))
    path = f"{cluster.path}{os.pathsep}{os.environ['PATH']}"
    done = launchmon("runs", "--slurm", "42", "--json", PATH=path)
    assert done.returncode == 0, done.stderr
    assert [row["target"] for row in json.loads(done.stdout) if row["id"] == made.id] == ["gpu07", "gpu08"]
    text = launchmon("runs", "--slurm", "42", PATH=path).stdout
    assert text.count(made.id) == 2 and text.startswith("gpu07:\nID") and "\n\ngpu08:\nID" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slurm", "41"), "Slurm knows no job 41"),
        (("--slurm", "serve"), "'serve' is no id of a Slurm job"),
        (("--slurm", "42", "--on", "a", "--on", "b"), "--slurm finds the nodes by itself"),
    ],
)
def test_a_refusal_is_a_line_on_stderr(cluster: FakeSlurm, words: tuple[str, ...], said: str) -> None:
    done = launchmon("diagnose", *words, PATH=f"{cluster.path}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"launchmon: {said}") and "  try: " in done.stderr


def test_a_target_that_is_left_out_is_named() -> None:
    done = launchmon("diagnose", "no-such-run", "--via", "env HERE=1", "--via", "no-such-program")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("launchmon: no-such-program is left out: no-such-program cannot be started")


@needs_sshd
@pytest.mark.usefixtures("login")
async def test_through_a_login_node(cluster: FakeSlurm) -> None:
    found = await slurm.nodes(slurm.in_job("42", ssh("login")), Nobody())
    assert [(one.kind, one.spec, one.label) for one in found] == [
        ("ssh", "login", "gpu07"),
        ("ssh", "login", "gpu08"),
    ]
    async with agent(found[1]) as session:
        assert session.target == "gpu08"
        assert isinstance(await session.request("runs"), list)
    assert cluster.steps == ["--jobid 42 --overlap -w gpu08 -N1 -n1 sh"]


@needs_sshd
async def test_a_login_node_without_slurm(login: Sshd) -> None:
    (login.login_home / ".bashrc").unlink()
    with pytest.raises(Refused, match="there is no Slurm on login"):
        await slurm.nodes(slurm.in_job("42", ssh("login")), Nobody())
