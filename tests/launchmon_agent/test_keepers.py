"""Starting a keeper, where something goes wrong on the way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent import keepers
from launchmon_agent.errors import Refused
from launchmon_agent.keep import Keeper
from launchmon_agent.runs.directory import ProcessId, RunDirectory, create
from launchmon_agent.runs.sockets import listen
from launchmon_agent.sensors import proc


def test_a_keeper_that_ends_before_it_has_read_a_long_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(mode: str, what: str, pass_fds: tuple[int, ...] = ()) -> tuple[subprocess.Popen[bytes], int]:
        child = subprocess.Popen(["true"])
        child.wait()
        status_read, status_write = os.pipe()
        os.close(status_write)
        return child, status_read

    monkeypatch.setattr(keepers, "_spawn", spawn)
    with pytest.raises(Refused, match="did not begin"):
        keepers.launch({"argv": ["sh"], "environ": {"LONG": "x" * 1_000_000}})  # more than a pipe holds


def test_a_keeper_that_takes_long_is_not_said_to_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    status_read, status_write = os.pipe()
    child = subprocess.Popen(["true"])
    monkeypatch.setattr(keepers, "_spawn", lambda *_, **__: (child, status_read))
    monkeypatch.setattr(keepers, "START_S", 0.05)
    try:
        with pytest.raises(Refused, match="has not begun within"):
            keepers.launch({"argv": ["sh"]})
    finally:
        os.close(status_write)
        child.wait()


async def test_an_abandoned_run_that_is_being_ended_already_is_left_to_that() -> None:
    asked = []

    class Service:
        async def kill(self, force: bool) -> None:
            asked.append(force)
            raise Refused("this run is being killed already")

    keeper = object.__new__(Keeper)
    keeper._while_watched = True
    keeper._service = Service()  # type: ignore[assignment]
    await keeper._end_abandoned()
    assert asked == [True] and not keeper._while_watched


def run_of(tmp_path: Path, **fields: Any) -> RunDirectory:
    directory = create(("sh",), root=str(tmp_path))
    directory.update(**fields)
    return directory


def me() -> ProcessId:
    return ProcessId(os.getpid(), proc.start_time(os.getpid()) or 0.0)


GONE = ProcessId(2**22 - 1, 1.0)


def test_the_keeper_of_a_run_that_has_ended_may_be_leaving(tmp_path: Path) -> None:
    """It lives on for a moment after it has closed its socket: the files tell all that there is to know."""
    path = str(tmp_path / "socket")
    directory = run_of(tmp_path, server=GONE, keeper=me(), socket=path)
    assert not keepers.ensure(directory)
    with listen(path):
        assert keepers.ensure(directory)
    directory.update(server=me())
    assert keepers.ensure(directory)


def test_a_run_that_is_just_being_started_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run_of(tmp_path)
    monkeypatch.setattr(keepers.time, "sleep", lambda _: directory.update(server=me(), keeper=me()))
    assert keepers.ensure(directory)


def test_a_run_that_was_never_started_has_ended(tmp_path: Path) -> None:
    assert not keepers.ensure(run_of(tmp_path, created=1000.0))
