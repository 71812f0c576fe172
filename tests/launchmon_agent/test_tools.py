"""A program arrives in parts."""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.stacks import cache
from launchmon_agent.tools import Tools

PROGRAM = b'#!/bin/sh\n[ "$1" = --version ]\n'
NAME = f"py-spy-0.4.1-x86_64-{hashlib.sha256(PROGRAM).hexdigest()}"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "launchmon"


def parts(size: int = 9) -> list[dict[str, Any]]:
    packed = zlib.compress(PROGRAM)
    starts = range(0, len(packed), size)
    data = [base64.b64encode(packed[start : start + size]).decode() for start in starts]
    return [
        {"number": number, "data": one, "name": NAME if number == len(data) - 1 else None}
        for number, one in enumerate(data)
    ]


def test_the_last_part_makes_it_whole(place: Path) -> None:
    tools = Tools()
    *first, last = parts()
    assert len(first) > 2
    assert all(tools.take(part) == {"path": None, "again": False} for part in first)
    assert tools.take(last) == {"path": str(place / NAME), "again": False}
    assert (place / NAME).read_bytes() == PROGRAM


def test_an_agent_that_knows_nothing_of_the_parts_before_says_so() -> None:
    tools = Tools()
    one, _, three, *_ = parts()
    assert tools.take(three)["again"]
    tools.take(one)
    assert tools.take(three)["again"]
    tools.take(one)
    assert all(not tools.take(part)["again"] for part in parts()[1:])


def test_what_is_no_base64_is_refused() -> None:
    with pytest.raises(Refused, match="damaged"):
        Tools().take({"number": 0, "data": "Ä!", "name": None})


def test_what_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LARGEST", 20)
    tools = Tools()
    with pytest.raises(Refused, match="too large"):
        for part in parts():
            tools.take(part)


def test_the_state_names_a_program_that_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    monkeypatch.setenv("PATH", "/nonexistent")
    tools = Tools()
    assert tools.state([]) == {"pyspy": None, "machine": os.uname().machine, "refused": None}
    for part in parts():
        tools.take(part)
    assert tools.state([])["pyspy"] == str(place / NAME)


def test_the_state_says_when_no_program_could_read_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Refused("the stacks cannot be read", "it belongs to another user")
    monkeypatch.setattr("launchmon_agent.stacks.permission.check", lambda pid: refused)
    assert Tools().state([1])["refused"] == refused.as_json()
