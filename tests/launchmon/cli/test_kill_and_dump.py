"""What ``kill`` asks before it acts, and what ``dump`` waits for."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import click
import pytest

from launchmon.cli import dump as dump_verb
from launchmon.cli import kill as kill_verb
from launchmon.link import Link
from launchmon_agent.errors import Refused
from launchmon_agent.events import Verdict


class Session:
    """Of a run of which nothing has been told yet."""

    def __init__(self, state: str = "live", verdict: Verdict | None = None) -> None:
        self.model = SimpleNamespace(processes=None, verdict=verdict, actions={})
        self.link = Link(state)
        self.killed = 0

    async def attach(self) -> None: ...

    async def back(self) -> None:
        raise Refused("the link has ended")

    async def kill_plan(self) -> list[Any]:
        return []

    async def kill(self, force: bool) -> dict[str, Any]:
        self.killed += 1
        return {"killed": [], "leftovers": [], "notes": [], "seconds": 0.0}

    def subscribe(self, callback: object) -> None: ...


def opening(session: Session) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Session]:
        yield session

    return opened


async def killed(monkeypatch: pytest.MonkeyPatch, answer: str | None) -> int:
    class Person:
        async def ask(self, prompt: str, *, secret: bool) -> str | None:
            assert prompt == "Kill these? [y/N]:" and not secret
            return answer

    session = Session()
    monkeypatch.setattr(kill_verb, "session", opening(session))
    monkeypatch.setattr(kill_verb, "at_hand", Person)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    await kill_verb._kill({}, force=False, yes=False, as_json=False)
    return session.killed


@pytest.mark.parametrize("answer", ["y", "Yes "])
async def test_a_kill_that_is_agreed_to(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    assert await killed(monkeypatch, answer) == 1


@pytest.mark.parametrize("answer", ["n", "", "yes please", None])
async def test_a_kill_that_is_not(monkeypatch: pytest.MonkeyPatch, answer: str | None) -> None:
    with pytest.raises(click.exceptions.Abort):
        await killed(monkeypatch, answer)


@pytest.mark.parametrize(
    "session", [Session("ended"), Session(verdict=Verdict(1.0, verdict="stopped"))], ids=["link", "run"]
)
async def test_a_dump_does_not_wait_for_what_has_ended(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    monkeypatch.setattr(dump_verb, "session", opening(session))
    with pytest.raises(Refused, match="the link has ended"):
        await dump_verb._dump({}, native=False, repeat=1, every=5.0, threads=False, as_json=False)
