"""How soon the right thing is said, second by second over stories of launches.

``python -m tests.bench --only verdicts``

The latency is that of the judge: from the last progress to the verdict. A verdict that comes never is a failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from launchmon_agent.events import CollectiveRank, Communicator, Ras
from tests.bench.result import Result, run
from tests.support.story import BUSY, GPU_SPINS, T0, Story

STACK = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
get_available_gpu_memory (sglang/srt/utils/common.py:500)
init_memory_pool (sglang/srt/model_executor/model_runner.py:900)
Scheduler.__init__ (sglang/srt/managers/scheduler.py:300)
"""
GATHER = "all_gather (torch/distributed/distributed_c10d.py:3000)"
LOCK = """
acquire (filelock/_api.py:300)
build_and_load (flashinfer/jit/core.py:200)
"""
STUCK_S, CRASH_S = 30.0, 2.0
"""Budgets: after the last progress, and after a crash."""

OTHERS = tuple(f"TP{number}" for number in range(1, 8))


def late_rank(at: float) -> Ras:
    """TP3 has launched one collective less than the others."""
    ranks = (
        CollectiveRank(n, pid=200 + n, ours=True, state="running", counts={"AllReduce": 40 - (n == 3)})
        for n in range(8)
    )
    return Ras(T0 + at, form="json", answered=f"{at}", communicators=(Communicator("0x1", 8, tuple(ranks)),))


def stories() -> Iterator[tuple[str, str, float, float, Story]]:
    """Name, the verdict that is right, the second of the last progress, the budget, the story."""
    yield (
        "all ranks in one collective, stacks",
        "deadlock-silent",
        31,
        STUCK_S,
        Story(tp=8).up_to("kv-pool").quiet(31).stacks(STACK),
    )
    yield (
        "all ranks in one collective, no stacks",
        "deadlock-silent",
        31,
        STUCK_S,
        Story(tp=8).up_to("kv-pool").quiet(31),
    )
    spinning = Story(tp=8).up_to("kv-pool").quiet(31).all(31, **BUSY).gpu(None, 31, **GPU_SPINS).stacks(STACK)
    yield "ranks and GPUs that spin", "deadlock-spinning", 31, STUCK_S, spinning
    divergent = Story(tp=8).up_to("kv-pool").quiet(31).stacks(STACK).stacks(GATHER, "TP3")
    yield "one rank in another collective", "deadlock-divergent", 31, STUCK_S, divergent
    counted = Story(tp=8).up_to("kv-pool").quiet(31)
    for second in range(32, 90, 5):
        counted.event(late_rank(second))
    yield "NCCL counts name the late rank", "one-behind", 31, STUCK_S, counted
    lock = Story(tp=8).up_to("graphs").quiet(33).stacks(LOCK)
    yield "a lock of a compiler that died", "waiting-lock", 33, STUCK_S, lock
    peer = Story(tp=8, nnodes=2, address="10.0.0.1:20000").up_to("dist-init").quiet(17)
    yield "another node that never comes", "waiting-peer", 17, STUCK_S, peer
    stopped = (
        Story(tp=8).up_to("weights").quiet(20, *OTHERS).rank("TP0", 20, state="T", tree_cpu_percent=0.0, read_bps=0.0)
    )
    yield "a stopped rank", "one-behind", 20, STUCK_S, stopped
    killed = Story(tp=8).up_to("weights").dies(24, "TP3")
    yield "a killed rank", "crashed", 24, CRASH_S, killed
    yield "a healthy launch", "ready", 44, CRASH_S, Story(tp=8).up_to("ready")


def results(quick: bool) -> Iterator[Result]:
    for name, kind, since, budget, story in stories():
        said = [at for at, verdict in story.play(90).verdicts if verdict.verdict == kind]
        yield Result(f"verdict, {name}: {kind} after", min(said, default=math.inf) - since, "s", budget)


if __name__ == "__main__":
    run(results)
