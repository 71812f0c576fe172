"""Which ranks a run should have on its node, by its sizes. Pure.

The coordinates of a tag, their order and the split of ranks over nodes are SGLang's own (``scheduler.py`` and
``engine.py``): only coordinates whose size is above one are shown, and up to 0.4.5 TP always.
"""

from __future__ import annotations

from launchmon_agent.events import Run
from launchmon_agent.sglang.versions import Versions

SINGLE = "TP0"
"""The name of the only rank of a run that prints no tags."""

MOST = 4096
"""Ranks of one node, more than any machine has GPUs for."""

_ORDERS = (
    (("DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP"), Versions.parse("0.5.5+")),
    (("DP", "TP", "EP", "PP"), Versions.parse("0.4.10-0.5.4")),
    (("DP", "TP", "PP"), Versions.parse("all")),
)
"""Coordinates of a tag, by release; EP came with 0.4.10. Of one that is not known it is the newest order."""


_ALWAYS_TP = Versions.parse("-0.4.5")
"""Releases that show TP also where it is the only one."""


def expected_ranks(run: Run) -> list[str]:
    """Tags in the order in which the launcher starts the schedulers: by replica, then PP, then TP.

    None for sizes that no run can have.
    """
    if min(run.tp, run.pp, run.dp, run.nnodes, run.ep, run.attn_cp, run.moe_dp) < 1 or run.node_rank < 0:
        return []
    nodes_per_stage = max(1, run.nnodes // max(1, run.pp))
    stages_here = max(1, run.pp // max(1, run.nnodes))
    tp_here = max(1, run.tp // nodes_per_stage)
    first_stage = stages_here * (run.node_rank // nodes_per_stage)
    first_tp = tp_here * (run.node_rank % nodes_per_stage)
    replicas = 1 if run.attention_dp else run.dp
    if replicas * stages_here * tp_here > MOST:
        return []
    return [
        _tag(run, replica, stage, tp)
        for replica in range(replicas)
        for stage in range(first_stage, first_stage + stages_here)
        for tp in range(first_tp, first_tp + tp_here)
    ]


def _tag(run: Run, replica: int, stage: int, tp: int) -> str:
    """The coordinates that the release shows, in its order."""
    shows_tp = run.tp > 1 or _ALWAYS_TP.holds(run.engine_version)
    numbers = {"PP": stage if run.pp > 1 else None, "TP": tp if shows_tp else None, **_of_tp(run, tp)}
    if run.dp > 1:
        numbers["DP"] = tp // max(1, run.tp // run.dp) if run.attention_dp else replica
    order = next(names for names, versions in _ORDERS if versions.holds(run.engine_version) is not False)
    return " ".join(f"{name}{numbers[name]}" for name in order if numbers.get(name) is not None) or SINGLE


def _of_tp(run: Run, tp: int) -> dict[str, int]:
    """Coordinates that follow from the TP rank (``runtime_context.py`` and ``data_parallel_controller.py``, 0.5.23)."""
    found = {}
    if run.ep > 1:
        experts = max(1, run.tp // run.moe_dp)
        found["EP"] = tp % experts // max(1, experts // run.ep)
    if run.attn_cp > 1:
        attention_tp = max(1, run.tp // (run.dp if run.attention_dp else 1) // run.attn_cp)
        found["ATTN_CP"] = tp // attention_tp % run.attn_cp
    if run.moe_dp > 1:
        found["MOE_DP"] = tp // max(1, run.tp // run.moe_dp)
    return found
