"""What a relaunch would start: the environment of the attempt before, and what leads to the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launchmon_agent.discover import Found
from launchmon_agent.errors import Refused
from launchmon_agent.output import Output
from launchmon_agent.runs.directory import ProcessId, RunDirectory, RunFile, create
from launchmon_agent.runs.relaunch import Origin, origin_of_process, origin_of_run, plan
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.flags.change import Change
from launchmon_agent.sglang.secrets import HIDDEN
from tests.support.flag_sources import OLD

ARGV = ("python", "-m", "sglang.launch_server", "--model-path", "m", "--api-key", "k")


def origin(**known: object) -> Origin:
    fields = {"id": "r", "argv": ARGV, "cwd": "/", "interpreter": None, "env": {}, "environ": {}, "series": "s"}
    return Origin(**{**fields, **known})  # type: ignore[arg-type]


def test_a_change_of_variables_goes_on_top_of_the_environment_before() -> None:
    before = origin(env={"A": "1", "HF_TOKEN": HIDDEN}, environ={"A": "1", "HF_TOKEN": "t", "B": "2"})
    found = plan(before, Change(set={"A": "3", "API_TOKEN": "s"}, unset=("B",)), OLD)
    assert found.set == {"A": "3", "API_TOKEN": "s", "B": None}
    assert found.env == {"A": "3", "HF_TOKEN": HIDDEN, "API_TOKEN": HIDDEN, "B": None}
    assert found.difference == ("~ A=1 → 3", f"+ API_TOKEN={HIDDEN}", "- B")
    request = found.request()
    assert (request["environ"], request["env"]) == (before.environ, found.set)
    assert (request["run"]["series"], request["run"]["attempt"], request["run"]["parent"]) == ("s", 2, "r")


def test_secrets_are_in_the_request_and_never_in_what_is_shown() -> None:
    before = origin(environ={"HF_TOKEN": "the-secret"})
    found = plan(before, Change(set={"API_TOKEN": "another-secret"}), OLD)
    assert "secret" not in str(found.shown()) and "secret" not in repr(found)
    assert found.shown()["argv"][-1] == HIDDEN


def test_a_secret_that_only_the_dead_server_had_is_asked_for() -> None:
    before = origin(env={"HF_TOKEN": HIDDEN}, environ={})
    with pytest.raises(Refused, match="HF_TOKEN is not known any more"):
        plan(before, Change(), OLD)
    assert plan(before, Change(set={"HF_TOKEN": "new"}), OLD).set == {"HF_TOKEN": "new"}


def test_going_back_takes_command_and_variables_of_that_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_SHELL", "0")
    now = origin(
        argv=(*ARGV, "--tp", "8"),
        env={"NCCL_DEBUG": "INFO", "OF_THE_SHELL": "1", "HF_TOKEN": HIDDEN},
        environ={"NCCL_DEBUG": "INFO", "OF_THE_SHELL": "1", "HF_TOKEN": "t"},
    )
    then = RunFile("r0", ARGV, 1.0, env={"OTHER": "2", "HF_TOKEN": HIDDEN})
    found = plan(now, Change(add=("--port=7",)), OLD, back_to=then)
    assert found.argv == (*ARGV, "--port", "7")
    assert found.set == {"NCCL_DEBUG": None, "OF_THE_SHELL": "0", "OTHER": "2"}
    assert found.env == {"OTHER": "2", "HF_TOKEN": HIDDEN}
    assert found.difference[:2] == ("- --tp-size 8", "+ --port 7")


# ---------------------------------------------------------------------------------------------------------- the origin


def directory(tmp_path: Path, **details: object) -> RunDirectory:
    return create(ARGV, root=str(tmp_path), cwd="/", **details)


def test_the_environment_of_a_run_that_lives_is_its_own(tmp_path: Path) -> None:
    start_time = proc.start_time(os.getpid())
    assert start_time is not None
    found = origin_of_run(directory(tmp_path, server=ProcessId(os.getpid(), start_time), env={"A": "recorded"}))
    assert found.pid == os.getpid() and f"process {os.getpid()}" in found.environ_of
    assert found.environ == proc.environ(os.getpid())


def test_the_environment_of_a_run_that_ended_is_ours_with_its_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GONE", "1")
    env = {"A": "recorded", "GONE": None, "HF_TOKEN": HIDDEN}
    found = origin_of_run(directory(tmp_path, server=ProcessId(1, 1.0), env=env, preparations=("PYTHONPATH=x: y",)))
    assert found.pid is None and "launchmon's own" in found.environ_of
    assert found.environ["A"] == "recorded" and "GONE" not in found.environ and "HF_TOKEN" not in found.environ
    assert found.without == ()


def test_a_launch_without_the_hook_stays_without_it(tmp_path: Path) -> None:
    assert origin_of_run(directory(tmp_path)).without == ("hook",)


def test_orphans_cannot_be_relaunched() -> None:
    orphans = Found(4711, 1.0, (), "/", "me", 2, (4711,), Output("none"), orphaned=True)
    with pytest.raises(Refused, match="cannot be relaunched"):
        origin_of_process(orphans)
