from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent import doctor, doctor_places
from launchmon_agent.capability import BROKEN, LESS, OK, STATES, Capability, worst
from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpu, Gpus
from launchmon_agent.preflight import facts
from launchmon_agent.sensors import proc
from launchmon_agent.stacks import cache, permission, pyspy


def test_the_worst_state_counts() -> None:
    assert worst([]) == OK
    assert worst([OK, LESS, OK]) == LESS
    assert worst([LESS, BROKEN, OK]) == BROKEN


def test_every_capability_is_told_once_in_order_with_its_cost_and_help() -> None:
    found = doctor.examine()
    assert [one["id"] for one in found] == list(doctor.ORDER)
    for one in found:
        assert set(one) == {"id", "state", "found", "cost", "try"}
        assert one["state"] in STATES and one["found"]
        if one["state"] != OK:
            assert one["cost"], one


def test_what_does_not_answer_or_fails_is_told_and_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs() -> Capability:
        time.sleep(60)
        raise AssertionError

    def fails() -> Capability:
        raise ValueError("no such thing")

    monkeypatch.setattr(doctor, "PATIENCE_S", 3.0)
    monkeypatch.setattr(doctor, "nvml", hangs)
    monkeypatch.setattr(doctor, "tmux", fails)
    states = {one["id"]: one["state"] for one in doctor.examine()}
    assert states["nvml"] == BROKEN and states["tmux"] == LESS and states["python"] == OK


def test_a_server_that_is_asked_for_and_is_not_there_is_refused() -> None:
    with pytest.raises(Refused):
        doctor.examine(pid=2**22 - 1)


@pytest.mark.parametrize(
    ("seen", "state", "words"),
    [
        (Gpus(0.0, driver="570.1", gpus=(Gpu(0, name="H200"), Gpu(1, name="H200"))), OK, "2 × H200, driver 570.1"),
        (Gpus(0.0, driver="570.1", gpus=(Gpu(0, name="H200", error="the GPU is lost"),)), LESS, "GPU 0: the GPU is"),
        (Gpus(0.0, source="none", error="no NVIDIA driver here"), LESS, "no NVIDIA driver here"),
        (Gpus(0.0), LESS, "the driver sees no GPU"),
    ],
)
def test_gpus(monkeypatch: pytest.MonkeyPatch, seen: Gpus, state: str, words: str) -> None:
    monkeypatch.setattr(doctor, "gpus", lambda _: seen)
    found = doctor.nvml()
    assert found.state == state and words in found.found
    assert bool(found.try_) == (state != OK)


def test_ptrace_that_is_refused_names_the_reason_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Refused("the stacks of process 7 cannot be read", "ptrace_scope is 1", "sudo sysctl …")
    monkeypatch.setattr(permission, "check", lambda _: refusal)
    assert doctor.ptrace(()) == Capability("ptrace", LESS, "ptrace_scope is 1", doctor.ptrace(()).cost, "sudo sysctl …")
    monkeypatch.setattr(permission, "check", lambda _: None)
    assert doctor.ptrace(()).state == OK


def test_py_spy_is_told_with_its_origin_and_its_lack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "py-spy"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cache, "runs", lambda _: True)
    monkeypatch.setattr(pyspy, "find", lambda _: iter([str(program)]))
    assert doctor.py_spy(()).found == f"{program} (on PATH)"
    monkeypatch.setattr(pyspy, "find", lambda _: iter(()))
    assert doctor.py_spy(()).state == LESS and doctor.py_spy(()).try_


def test_other_users_processes_that_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "stat", lambda _: None)
    assert doctor.processes().state == LESS


def test_tmux_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.tmux().state == LESS
    assert "tmux" in doctor.tmux().try_


@pytest.mark.parametrize(
    ("shm", "state", "help_"),
    [
        ((64 << 20, 60 << 20), LESS, "--shm-size"),
        ((32 << 30, 1 << 20), LESS, "ls -lt"),
        ((32 << 30, 31 << 30), OK, ""),
        (None, LESS, "--shm-size"),
    ],
)
def test_shared_memory(monkeypatch: pytest.MonkeyPatch, shm: Any, state: str, help_: str) -> None:
    monkeypatch.setattr(facts, "shm", lambda: shm)
    found = doctor_places.shm()
    assert found.state == state and help_ in found.try_


def test_a_state_directory_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    found = doctor_places.state_directory(str(tmp_path / "a" / "b"))
    assert found.state in (OK, LESS) and "left" in found.found
    assert list(tmp_path.iterdir()) == []


def test_a_state_directory_that_cannot_be_written_is_broken() -> None:
    found = doctor_places.state_directory("/proc/launchmon/runs")
    assert found.state == BROKEN and "XDG_STATE_HOME" in found.try_


def test_little_space_is_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_places, "WANTED_FREE", 1 << 62)
    assert doctor_places.state_directory(str(tmp_path)).state == LESS


def test_the_socket_that_is_tried_is_taken_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert doctor_places.runtime_directory().state == OK
    assert list((tmp_path / "launchmon").iterdir()) == []


def test_a_runtime_directory_of_somebody_else_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "launchmon").symlink_to("/tmp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = doctor_places.runtime_directory()
    assert found.state == BROKEN and "ls -ld" in found.try_
