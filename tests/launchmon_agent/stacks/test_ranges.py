"""Sets of ranks in words."""

from __future__ import annotations

import pytest

from launchmon_agent.stacks.ranges import label, shared

GRID = [f"DP{dp} TP{tp}" for dp in range(2) for tp in range(4)]
ATTENTION_DP = ["DP0 TP0", "DP0 TP1", "DP1 TP2", "DP1 TP3"]


@pytest.mark.parametrize(
    "ranks, text",
    [
        (["TP3"], "TP3"),
        ([f"TP{n}" for n in (0, 1, 2, 4, 5, 6, 7)], "TP0-2,4-7"),
        ([f"TP{n}" for n in (10, 9, 2, 1, 2)], "TP1-2,9-10"),
        (GRID, "DP0-1 TP0-3"),
        (GRID[4:], "DP1 TP0-3"),
        ([*GRID[4:], "DP0 TP2"], "DP0 TP2 + DP1 TP0-3"),
        (["DP0 TP3", "DP1 TP3"], "DP0-1 TP3"),
        (ATTENTION_DP, "DP0 TP0-1 + DP1 TP2-3"),
        (["DP0 PP1 TP0", "DP0 PP1 TP1", "DP1 PP1 TP0", "DP1 PP1 TP1"], "DP0-1 PP1 TP0-1"),
        (["launcher"], "launcher"),
        (["TP0", "launcher"], "TP0 + launcher"),
        ([], ""),
    ],
)
def test_label(ranks: list[str], text: str) -> None:
    assert label(ranks) == text


@pytest.mark.parametrize(
    "some, everyone, nodes, text",
    [
        (GRID[4:], GRID, None, "DP1"),
        (["DP0 TP3", "DP1 TP3"], GRID, None, "TP3"),
        (GRID[4:6], GRID, None, "2 of the 4 in DP1"),
        (["DP0 TP0", "DP1 TP2"], GRID, None, None),
        (["TP2", "TP3"], ["TP0", "TP1", "TP2", "TP3"], {"TP0": 0, "TP1": 0, "TP2": 1, "TP3": 1}, "node 1"),
        (["TP2"], ["TP0", "TP2"], None, None),
        (GRID, GRID, None, None),
        (
            ["DP1 PP1 TP0", "DP1 PP1 TP1"],
            [f"DP{d} PP{p} TP{t}" for d in (0, 1) for p in (0, 1) for t in (0, 1)],
            None,
            "DP1 PP1",
        ),
    ],
)
def test_what_a_set_has_in_common(
    some: list[str], everyone: list[str], nodes: dict[str, int] | None, text: str | None
) -> None:
    assert shared(some, everyone, nodes) == text
