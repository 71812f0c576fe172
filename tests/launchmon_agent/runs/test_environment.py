"""The environment of a run without what launchmon added to it."""

from __future__ import annotations

from pathlib import Path

from launchmon_agent.runs.environment import unprepared, without_hook
from launchmon_agent.runs.launch import prepare
from launchmon_agent.stacks.hook.sitecustomize import HOME, KEEPER
from launchmon_agent.stacks.plant import plant


def test_what_a_launch_prepared_is_taken_back(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    before = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/mine", "HF_TOKEN": "t"}
    plan = prepare([str(python), "x.py"], environ=before, cwd=str(tmp_path))
    assert len(plan.preparations) == 5
    after = plant(str(tmp_path), plan.env, keeper=1)
    assert after["PATH"] != before["PATH"] and after["PYTHONPATH"] != before["PYTHONPATH"]
    assert unprepared(after, plan.preparations) == before


def test_what_a_person_has_set_stays() -> None:
    environ = {"PATH": "/venv/bin:/bin", "PYTHONUNBUFFERED": "x", "NCCL_RAS_ADDR": "localhost:1"}
    prepared = ("PATH=/other/bin:…: why", "PYTHONUNBUFFERED=1: why")
    assert unprepared(environ, prepared) == environ


def test_the_hook_alone_leaves_no_empty_path() -> None:
    assert without_hook({"PYTHONPATH": "/run/hook", HOME: "/run/hook", KEEPER: "7", "A": "1"}) == {"A": "1"}
    assert without_hook({"PYTHONPATH": "/a:/b"}) == {"PYTHONPATH": "/a:/b"}
