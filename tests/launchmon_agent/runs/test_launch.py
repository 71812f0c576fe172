"""What is prepared for a launched run."""

from __future__ import annotations

import os
import sys

from launchmon.cli import launch
from launchmon_agent.runs.launch import PREPARATIONS, prepare
from launchmon_agent.sglang.secrets import HIDDEN

ENVIRON = {"PATH": "/usr/bin:/bin", "OLD": "1"}
PYTHON = (sys.executable, "-c", "pass")


def test_each_preparation_is_set_and_said() -> None:
    plan = prepare(PYTHON, environ=ENVIRON)
    folder = os.path.dirname(sys.executable)
    assert plan.env["PATH"] == f"{folder}:/usr/bin:/bin"
    assert plan.env["SPT_NOENV"] == "1"
    assert plan.env["PYTHONUNBUFFERED"] == "1"
    assert plan.env["NCCL_RAS_ADDR"].startswith("localhost:")
    assert [text.partition("=")[0] for text in plan.preparations] == [
        "PATH",
        "SPT_NOENV",
        "PYTHONUNBUFFERED",
        "NCCL_RAS_ADDR",
        "PYTHONPATH",
    ]
    assert plan.hook


def test_each_can_be_left_out() -> None:
    for name in PREPARATIONS:
        plan = prepare(PYTHON, environ=ENVIRON, without={name})
        assert len(plan.preparations) == len(PREPARATIONS) - 1
    plan = prepare(PYTHON, environ=ENVIRON, without=PREPARATIONS)
    assert plan.preparations == ()
    assert plan.env == ENVIRON
    assert not plan.hook


def test_what_a_person_has_set_stays() -> None:
    own = {"SPT_NOENV": "0", "PYTHONUNBUFFERED": "", "NCCL_RAS_ADDR": "localhost:1"}
    plan = prepare(PYTHON, env=own, environ=ENVIRON)
    assert {name: plan.env[name] for name in own} == own
    assert [text.partition("=")[0] for text in plan.preparations] == ["PATH", "PYTHONPATH"]


def test_a_path_that_begins_with_the_interpreter_is_left_alone() -> None:
    folder = os.path.dirname(sys.executable)
    plan = prepare(PYTHON, environ={"PATH": f"{folder}:/bin"})
    assert plan.env["PATH"] == f"{folder}:/bin"
    assert not any(text.startswith("PATH") for text in plan.preparations)


def test_a_command_without_a_python_keeps_its_path() -> None:
    plan = prepare(("true",), environ=ENVIRON)
    assert plan.interpreter is None
    assert plan.env["PATH"] == ENVIRON["PATH"]


def test_environment_changes_are_applied_and_shown_without_secrets() -> None:
    plan = prepare(PYTHON, env={"HF_TOKEN": "abc", "OLD": None, "NEW": "2"}, environ=ENVIRON)
    assert plan.env["HF_TOKEN"] == "abc"
    assert "OLD" not in plan.env
    assert plan.shown_env == {"HF_TOKEN": HIDDEN, "OLD": None, "NEW": "2"}
    assert "abc" not in repr(plan)


def test_the_program_is_found_by_the_path_it_will_have() -> None:
    plan = prepare(("sh", "-c", "true"), environ={"PATH": "/nonexistent"}, env={"PATH": "/bin:/usr/bin"})
    assert plan.program in ("/bin/sh", "/usr/bin/sh")


def test_the_verb_offers_to_leave_out_exactly_what_is_prepared() -> None:
    assert tuple(PREPARATIONS) == launch.PREPARATIONS
