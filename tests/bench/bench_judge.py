"""What the judge costs for each second of a run's stream, at 8 and at 64 ranks. Run it with

``python -m tests.bench --only judge``.

Budgets: 5 ms a second of stream for 8 ranks, 50 ms for 64, folding, verdict and the question for a stall together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby

from launchmon_agent.events import Event
from launchmon_agent.judge.verdict import judge, stall
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.model import RunModel
from tests.bench.result import Result, run
from tests.support.story import T0, Story

STACK = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
get_available_gpu_memory (sglang/srt/utils/common.py:500)
init_memory_pool (sglang/srt/model_executor/model_runner.py:900)
Scheduler.__init__ (sglang/srt/managers/scheduler.py:300)
"""
SECONDS = 120
BUDGET_MS = {8: 5.0, 64: 50.0}


def stories(tp: int) -> Iterator[tuple[str, Story]]:
    yield "healthy", Story(tp=tp).up_to("ready")
    yield "dead-locked, with stacks", Story(tp=tp).up_to("kv-pool").quiet(31).stacks(STACK)
    yield "dead-locked, without", Story(tp=tp).up_to("kv-pool").quiet(31)
    yield "slow disk", Story(tp=tp).up_to("weights").reads(20, 5e6)


def cost(events: list[Event]) -> tuple[float, float]:
    """Mean and worst milliseconds for a second of the stream."""
    model, window = RunModel(), EvidenceWindow()
    spent = []
    for second, group in groupby(events, key=lambda event: int(event.at - T0)):
        batch = list(group)
        for event in batch:
            model.fold(event)
        begin = time.process_time()
        for event in batch:
            window.fold(event)
        judge(model, window, T0 + second)
        stall(model, window, T0 + second)
        spent.append(1000 * (time.process_time() - begin))
    return sum(spent) / len(spent), max(spent)


def results(quick: bool) -> Iterator[Result]:
    for tp, budget in BUDGET_MS.items():
        for name, story in stories(tp):
            mean, worst = cost(story.play(SECONDS / 2 if quick else SECONDS).events)
            yield Result(f"judge, {tp} ranks, {name}: a second of stream", mean, "ms", budget)
            yield Result(f"judge, {tp} ranks, {name}: the dearest second", worst, "ms")


if __name__ == "__main__":
    run(results)
