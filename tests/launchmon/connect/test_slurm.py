"""The nodes of a Slurm job as targets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launchmon.connect import Ending, Nobody, slurm
from launchmon.connect.refusal import NotStarted, refusal
from launchmon.connect.target import LOCAL, Target, options_of, ssh, via
from launchmon_agent.errors import Refused
from tests.support.client import agent
from tests.support.fake_slurm import FakeSlurm


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(tmp_path)
    monkeypatch.setenv("PATH", f"{fake.path}{os.pathsep}{os.environ['PATH']}")
    return fake


async def nodes(job: str, login: Target = LOCAL) -> tuple[Target, ...]:
    return await slurm.nodes(slurm.in_job(slurm.job(job), login), Nobody())


@pytest.mark.usefixtures("cluster")
async def test_each_node_is_reached_by_a_step_of_the_job() -> None:
    found = await nodes("42")
    assert [(one.kind, one.spec, one.label) for one in found] == [
        ("via", "srun --jobid 42 --overlap -w gpu07 -N1 -n1", "gpu07"),
        ("via", "srun --jobid 42 --overlap -w gpu08 -N1 -n1", "gpu08"),
    ]
    assert options_of(found) == ["--slurm", "42"]


@pytest.mark.usefixtures("cluster")
async def test_a_job_on_one_node_is_one_target() -> None:
    (one,) = await nodes("46")
    assert one.label == "gpu07"


@pytest.mark.usefixtures("cluster")
async def test_through_a_command_that_leads_to_the_login_node() -> None:
    first, _ = await nodes("42", via("env LOGIN=1"))
    assert first.spec == "env LOGIN=1 srun --jobid 42 --overlap -w gpu07 -N1 -n1"
    assert options_of([first]) == ["--via", "env LOGIN=1", "--slurm", "42"]


async def test_an_agent_runs_on_the_node(cluster: FakeSlurm) -> None:
    first, _ = await nodes("42")
    async with agent(first) as session:
        assert session.target == "gpu07"
        assert isinstance(await session.request("runs"), list)
    assert cluster.steps == ["--jobid 42 --overlap -w gpu07 -N1 -n1 sh"]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("job", "what", "try_"),
    [
        ("41", "Slurm knows no job 41", "squeue --me"),
        ("43", "job 43 does not run", "squeue -j 43 --start    # when it is expected to start"),
        ("44", "job 44 does not run", "squeue --me"),
        ("45", "job 45 is 2 jobs that run", "--slurm 45_1"),
    ],
)
async def test_a_job_without_nodes_is_refused_with_one_thing_to_try(job: str, what: str, try_: str) -> None:
    with pytest.raises(Refused) as refused:
        await nodes(job)
    assert (refused.value.what, refused.value.try_) == (what, try_)


@pytest.mark.parametrize("login", [LOCAL, via("env LOGIN=1")])
async def test_where_there_is_no_slurm_the_login_node_is_to_be_named(
    login: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="scontrol was not found") as refused:
        await nodes("42", login)
    assert refused.value.try_ == "launchmon attach --slurm JOBID --on LOGINHOST"


@pytest.mark.parametrize("text", ["", "serve", "42;reboot", "-1", "42 43", "42_"])
def test_what_is_no_job_id_never_reaches_a_shell(text: str) -> None:
    with pytest.raises(Refused, match="no id of a Slurm job"):
        slurm.job(text)


@pytest.mark.parametrize("text", ["42", "42_7", "42+1"])
def test_ids_of_jobs_tasks_and_components(text: str) -> None:
    assert slurm.job(text) == text


async def test_names_of_nodes_are_no_options_nor_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSlurm(tmp_path)
    (fake.path / "scontrol").write_text(
        '#!/bin/sh\n[ "$2" = job ] && echo "JobId=42 JobState=RUNNING NodeList=x" && exit\n'
        "printf '%s\\n' --evil 'gpu07;id' '$(id)' gpu07\n"
    )
    monkeypatch.setenv("PATH", f"{fake.path}{os.pathsep}{os.environ['PATH']}")
    assert [one.label for one in await nodes("42")] == ["gpu07"]


def test_what_srun_complains_of_is_explained_through_a_login_too() -> None:
    node = Target("ssh", "login", step="srun --jobid 42 --overlap -w gpu07 -N1 -n1", name="gpu07")
    said = refusal(node, NotStarted(Ending(1), "srun: error: Unable to confirm allocation: Invalid job id specified"))
    assert said.what.startswith("no agent could be started on gpu07")
    assert (said.cause, said.try_) == ("there is no such job any more", "squeue --me")


def test_a_job_by_its_login_node_is_named_by_both() -> None:
    assert slurm.in_job("42", ssh("login")).options == ("--on", "login", "--slurm", "42")
