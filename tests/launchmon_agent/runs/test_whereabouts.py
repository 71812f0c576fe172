"""Runs of another machine in a directory that several share."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from launchmon_agent import listing
from launchmon_agent.errors import Refused
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import ProcessId, RunDirectory, create
from launchmon_agent.runs.whereabouts import Machine, is_here, this_machine
from launchmon_agent.sensors import proc

ARGV = ("python", "-m", "sglang.launch_server", "--model-path", "m")
HERE = this_machine()
OTHER = Machine("gpu9", "another-boot", "pid:[1]")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def made(machine: Machine | None, name: str = "big", server: ProcessId | None = None) -> RunDirectory:
    place = create(ARGV, name=name)
    place.update(machine=machine, server=server or ProcessId(4242, 1.0))
    return place


def states() -> dict[str, tuple[str, str | None]]:
    return {row["id"]: (row["state"], row["host"]) for row in listing.runs_here() if row["id"]}


def test_a_run_knows_its_machine() -> None:
    file = create(ARGV).read()
    assert file is not None and file.machine == HERE
    assert directory.elsewhere(file) is None


@pytest.mark.parametrize(
    ("machine", "here"),
    [
        (HERE, True),
        (replace(HERE, boot_id="the-boot-before"), True),  # started again
        (replace(HERE, hostname="renamed"), True),
        (replace(HERE, hostname="a-container", processes="pid:[1]"), False),
        (OTHER, False),
        (Machine("gpu9"), False),
    ],
)
def test_which_machine_is_this_one(machine: Machine, here: bool) -> None:
    assert is_here(machine) is here


def test_a_run_of_another_machine_is_neither_running_nor_ended() -> None:
    ended, other, old = made(HERE), made(OTHER), made(None)
    assert states() == {ended.id: ("ended", None), other.id: ("elsewhere", "gpu9"), old.id: ("ended", None)}


def test_a_process_here_with_the_same_pid_and_start_time_is_another_one() -> None:
    started = proc.start_time(os.getpid())
    assert started is not None
    place = made(OTHER, server=ProcessId(os.getpid(), started))
    assert states() == {place.id: ("elsewhere", "gpu9")}


@pytest.mark.parametrize("by", ["id", "name"])
def test_a_run_of_another_machine_is_refused_with_the_way_there(by: str) -> None:
    place = made(OTHER)
    with pytest.raises(Refused, match=rf"the run {place.id} is on gpu9") as refused:
        listing.choose({"run": place.id if by == "id" else "big"})
    assert refused.value.try_ == f"launchmon attach --on gpu9 {place.id}"


def test_of_one_name_the_run_of_this_machine_is_meant() -> None:
    here = made(HERE)
    made(OTHER)  # newer: the other node of the same run
    found = directory.find("big")
    assert found is not None and found.id == here.id


def test_of_one_part_of_an_id_the_run_of_this_machine_is_meant() -> None:
    here = made(HERE, name="bigger")
    made(OTHER, name="bigger-still")
    found = directory.find("bigge")
    assert found is not None and found.id == here.id
