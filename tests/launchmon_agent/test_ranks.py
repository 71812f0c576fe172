"""Which ranks a node should have: the split that SGLang's own engine makes."""

from __future__ import annotations

from typing import Any

import pytest

from launchmon_agent.events import Run
from launchmon_agent.sglang.ranks import expected_ranks


@pytest.mark.parametrize(
    ("sizes", "tags"),
    [
        ({}, ["TP0"]),
        ({"tp": 2}, ["TP0", "TP1"]),
        ({"dp": 2}, ["DP0", "DP1"]),
        ({"dp": 2, "tp": 2}, ["DP0 TP0", "DP0 TP1", "DP1 TP0", "DP1 TP1"]),
        ({"pp": 2}, ["PP0", "PP1"]),
        ({"pp": 2, "tp": 2}, ["PP0 TP0", "PP0 TP1", "PP1 TP0", "PP1 TP1"]),
        ({"tp": 2, "dp": 2, "attention_dp": True}, ["DP0 TP0", "DP1 TP1"]),
        ({"tp": 4, "ep": 4}, ["TP0 EP0", "TP1 EP1", "TP2 EP2", "TP3 EP3"]),
        ({"tp": 4, "ep": 2}, ["TP0 EP0", "TP1 EP0", "TP2 EP1", "TP3 EP1"]),
        ({"tp": 2, "dp": 2, "ep": 2, "attention_dp": True}, ["DP0 TP0 EP0", "DP1 TP1 EP1"]),
        (
            {"tp": 4, "attn_cp": 2, "moe_dp": 2, "ep": 2},
            [
                *("ATTN_CP0 MOE_DP0 TP0 EP0", "ATTN_CP0 MOE_DP0 TP1 EP1"),
                *("ATTN_CP1 MOE_DP1 TP2 EP0", "ATTN_CP1 MOE_DP1 TP3 EP1"),
            ],
        ),
        ({"tp": 2, "pp": 2, "engine_version": "0.5.3"}, ["TP0 PP0", "TP1 PP0", "TP0 PP1", "TP1 PP1"]),
        ({"tp": 2, "pp": 2, "engine_version": "0.4.7"}, ["TP0 PP0", "TP1 PP0", "TP0 PP1", "TP1 PP1"]),
        ({"tp": 2, "ep": 2, "engine_version": "0.5.4"}, ["TP0 EP0", "TP1 EP1"]),
        ({"tp": 2, "ep": 2, "engine_version": "0.4.7"}, ["TP0", "TP1"]),
        ({"tp": 2, "pp": 2, "engine_version": "0.5.5"}, ["PP0 TP0", "PP0 TP1", "PP1 TP0", "PP1 TP1"]),
        ({"dp": 2, "engine_version": "0.4.5.post3"}, ["DP0 TP0", "DP1 TP0"]),
        ({"dp": 2, "engine_version": "0.4.6.post5"}, ["DP0", "DP1"]),
        ({"tp": 4, "nnodes": 2, "node_rank": 1}, ["TP2", "TP3"]),
        ({"tp": 2, "pp": 2, "nnodes": 2, "node_rank": 1}, ["PP1 TP0", "PP1 TP1"]),
        ({"tp": 4, "pp": 2, "nnodes": 4, "node_rank": 3}, ["PP1 TP2", "PP1 TP3"]),
    ],
)
def test_expected_ranks(sizes: dict[str, Any], tags: list[str]) -> None:
    run = Run(0.0, id="x", **sizes)
    assert expected_ranks(run) == tags
    assert len(tags) == run.ranks_here
