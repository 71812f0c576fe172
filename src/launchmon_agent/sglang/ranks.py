"""Which ranks a run should have on its node, by its sizes. Pure.

The order of coordinates in a tag and the split of ranks over nodes are SGLang's own (``scheduler.py`` and
``engine.py``, 0.4.6 to 0.5.23): only coordinates whose size is above one are shown.
"""

from __future__ import annotations

from launchmon_agent.events import Run

SINGLE = "TP0"
"""The name of the only rank of a run that prints no tags."""


def expected_ranks(run: Run) -> list[str]:
    """Tags in the order in which the launcher starts the schedulers: by replica, then PP, then TP."""
    nodes_per_stage = max(1, run.nnodes // max(1, run.pp))
    stages_here = max(1, run.pp // max(1, run.nnodes))
    tp_here = max(1, run.tp // nodes_per_stage)
    first_stage = stages_here * (run.node_rank // nodes_per_stage)
    first_tp = tp_here * (run.node_rank % nodes_per_stage)
    replicas = 1 if run.attention_dp else run.dp
    return [
        _tag(run, replica, stage, tp)
        for replica in range(replicas)
        for stage in range(first_stage, first_stage + stages_here)
        for tp in range(first_tp, first_tp + tp_here)
    ]


def _tag(run: Run, replica: int, stage: int, tp: int) -> str:
    parts = []
    if run.attention_dp and run.dp > 1:
        parts.append(f"DP{tp // max(1, run.tp // run.dp)}")
    elif run.dp > 1:
        parts.append(f"DP{replica}")
    if run.pp > 1:
        parts.append(f"PP{stage}")
    if run.tp > 1:
        parts.append(f"TP{tp}")
    return " ".join(parts) or SINGLE
