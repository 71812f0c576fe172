"""What is told of a relaunch while it goes on."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from launchmon_agent import keepers, relaunching
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action, Event
from launchmon_agent.relaunching import Relauncher
from launchmon_agent.runs.directory import RunDirectory


async def test_the_steps_of_a_relaunch_share_its_id_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Event] = []

    async def nothing(*_: Any, **__: Any) -> Any:
        return None

    origin = SimpleNamespace(newest=1, environ_of="its own")
    planned = SimpleNamespace(origin=origin, difference=("+ --tp 2",), request=dict)

    async def plan(*_: Any, **__: Any) -> Any:
        return planned

    def refuse(_request: object) -> RunDirectory:
        raise Refused("no memory is left")

    relauncher = Relauncher(RunDirectory("/nowhere"), nothing, told.append, tuple)
    for name, instead in (("_plan", plan), ("_borrow", nothing), ("_clear", plan)):
        monkeypatch.setattr(relauncher, name, instead)
    monkeypatch.setattr(relaunching, "check", lambda _planned: None)
    monkeypatch.setattr(keepers, "launch", refuse)
    monkeypatch.setattr(relaunching, "time", SimpleNamespace(time=map(float, itertools.count(100)).__next__))
    for _ in range(2):
        with pytest.raises(Refused, match="no memory is left"):
            await relauncher.run({})
    steps = [(one.id, one.state) for one in told if isinstance(one, Action)]
    first, second = steps[0][0], steps[2][0]
    assert first != second
    assert steps == [(first, "doing"), (first, "failed"), (second, "doing"), (second, "failed")]
