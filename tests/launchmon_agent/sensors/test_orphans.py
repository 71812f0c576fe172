"""Ranks that have lost their launcher, as real processes: who counts as one, and where it listens."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from launchmon_agent.events import Orphan
from launchmon_agent.sensors.orphans import KEEPER_COMM, leftovers, orphans
from tests.support.orphans import rank
from tests.support.waiting import until


def found(pid: int, before: float | None = None) -> Orphan | None:
    return next((one for one in orphans(before) if one.pid == pid), None)


def test_a_rank_whose_launcher_is_dead_is_an_orphan() -> None:
    with rank() as (pid, port):
        until(lambda: found(pid) is not None)
        orphan = found(pid)
        assert orphan is not None and (orphan.title, orphan.ports) == ("sglang::scheduler_TP3", (port,))


def test_what_is_left_of_this_very_launch_is_none_of_an_earlier_one() -> None:
    began = time.time() - 60
    with rank() as (pid, _):
        until(lambda: found(pid) is not None)
        assert pid not in {one.pid for one in leftovers(began, 0.0).orphans}
        assert pid in {one.pid for one in leftovers(time.time() + 60, 0.0).orphans}


@pytest.mark.parametrize(
    "keeper, title, parent",
    [
        (KEEPER_COMM, "sglang::scheduler_TP3", "lives"),
        ("bash", "sglang::scheduler_TP3", "dies"),
        (KEEPER_COMM, "sglang::router", "dies"),
    ],
    ids=["its parent lives", "somebody else's child", "no rank"],
)
def test_other_processes_are_none(keeper: str, title: str, parent: str) -> None:
    with rank(title, parent, keeper) as (pid, _):
        until(lambda: Path(f"/proc/{pid}/comm").read_text().startswith("sglang::"))
        assert found(pid) is None
