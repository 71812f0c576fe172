"""Actions that go on without whoever asked, and what is told of them afterwards."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent.actions import Actions
from launchmon_agent.errors import Refused
from launchmon_agent.runs.journal import Journal
from launchmon_agent.wire import Request

ID = "0123456789abcdef" * 2
OTHER = "fedcba9876543210" * 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "actions"


def actions(folder: Path) -> Actions:
    """As another process has them: they share the journal alone."""
    return Actions(Journal(str(folder)))


def kill(action: str = ID) -> Request:
    return Request(1, "kill", {"action": action})


async def test_an_action_goes_on_when_its_asker_is_gone(folder: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> dict[str, Any]:
        begun.set()
        await go_on.wait()
        return {"leftovers": ()}

    ours = actions(folder)
    asking = asyncio.create_task(ours.carry_out(kill(), work))
    await begun.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    told = asyncio.create_task(actions(folder).outcome(ID))  # waits: it is under way
    go_on.set()
    await ours.finish()
    assert await told == {"state": "done", "do": "kill", "value": {"leftovers": []}}


@pytest.mark.parametrize("error", [Refused("no", "because", "yes"), ValueError("broken")])
async def test_a_refusal_and_a_fault_are_outcomes(folder: Path, error: Exception) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        await actions(folder).carry_out(kill(), work)
    outcome = await actions(folder).outcome(ID)
    assert outcome["state"] == "refused"
    assert outcome["refused"]["what"] == ("no" if isinstance(error, Refused) else "the kill failed: ValueError: broken")


async def test_what_never_arrived_is_not_done_and_is_refused_when_it_comes_late(folder: Path) -> None:
    done = []

    async def work() -> None:
        done.append(1)

    assert await actions(folder).outcome(ID) == {"state": "not done"}
    with pytest.raises(Refused, match="not repeated"):
        await actions(folder).carry_out(kill(), work)
    await actions(folder).carry_out(kill(OTHER), work)
    with pytest.raises(Refused, match="not repeated"):
        await actions(folder).carry_out(kill(OTHER), work)
    assert done == [1]


async def test_one_whose_process_has_ended_without_a_word_is_unknown(folder: Path) -> None:
    Journal(str(folder)).begin(ID, "kill")
    path = folder / f"{ID}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "start_time": 1.0}))  # of a process that is no more
    assert await actions(folder).outcome(ID) == {"state": "unknown"}


async def test_without_a_journal_it_is_done_and_its_outcome_unknown(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "actions"

    async def work() -> str:
        return "d1"

    assert await actions(folder).carry_out(kill(), work) == "d1"
    assert await actions(folder).outcome(ID) == {"state": "unknown"}


async def test_what_is_part_of_something_else_is_not_noted(folder: Path) -> None:
    async def work() -> None:
        return None

    await actions(folder).carry_out(Request(0, "clear", {}), work)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "", ID.upper(), ID + "0", 7])
async def test_names_of_actions_are_no_paths(folder: Path, name: Any) -> None:
    with pytest.raises(Refused, match="hexadecimal"):
        await actions(folder).outcome(name)


def test_entries_are_private_and_old_ones_go(folder: Path) -> None:
    Journal(str(folder)).begin(ID, "kill")
    entry = folder / f"{ID}.json"
    assert (entry.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    os.utime(entry, (1.0, 1.0))
    Journal(str(folder)).begin(OTHER, "dump")
    assert sorted(path.name for path in folder.iterdir()) == [f"{OTHER}.json"]


async def test_a_refusal_is_kept_without_secrets(folder: Path) -> None:
    async def work() -> None:
        raise Refused("--api-key=hunter2hunter2 was not found")

    with pytest.raises(Refused):
        await actions(folder).carry_out(kill(), work)
    assert "hunter2" not in (folder / f"{ID}.json").read_text()
    assert "--api-key=" in (await actions(folder).outcome(ID))["refused"]["what"]
