"""Starting a keeper, where something goes wrong on the way."""

from __future__ import annotations

import os
import subprocess

import pytest

from launchmon_agent import keepers
from launchmon_agent.errors import Refused
from launchmon_agent.keep import Keeper


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
