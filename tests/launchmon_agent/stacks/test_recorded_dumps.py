"""Dumps of real servers, merged and explained."""

from __future__ import annotations

from pathlib import Path

from launchmon_agent import codec
from launchmon_agent.events import Stacks
from launchmon_agent.stacks.merge import Group, merge
from launchmon_agent.stacks.render import text

RECORDINGS = Path(__file__).parents[2] / "recordings" / "stacks"


def recorded(name: str) -> Stacks:
    dump = codec.decode((RECORDINGS / f"{name}.json").read_text())
    assert isinstance(dump, Stacks)
    return dump


def meaning(group: Group) -> tuple[str, str | None]:
    return group.label, group.explanation and group.explanation.id


def test_a_rank_that_is_stuck_in_the_loader_comes_before_the_one_that_waits_for_it() -> None:
    merged = merge(recorded("tp1-stuck-in-loader"))
    assert [meaning(group) for group in merged.groups] == [("TP1", "loading"), ("TP0", "load-barrier")]
    assert [meaning(group) for group in merged.others] == [("launcher", "wait-for-ready")]
    root = merged.tree[0]
    assert (root.function, root.label) == ("run_scheduler_process", "TP0-1")
    lines = text(merged).splitlines()
    order = [lines.index(line) for line in ("TP1  1 of 2", "TP0  1 of 2", "launcher")]
    assert order == sorted(order)
    assert "  has its weights, and waits for the ranks that still load theirs" in lines
    assert any(line.startswith("    monitored_barrier (torch/distributed/distributed_c10d.py:") for line in lines)
