"""How often a run is judged: each second while anything may be new, seldom while only the seconds grow."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest

from launchmon_agent.events import LAUNCHER, Event
from launchmon_agent.judge.pace import SETTLED_EVERY_S, Pace
from launchmon_agent.judge.verdict import judge
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.model import RunModel
from tests.support.story import GPU_SPINS, T0, Story

STACK = """
all_reduce (torch/distributed/distributed_c10d.py:2100)
init_memory_pool (sglang/srt/model_executor/model_runner.py:900)
"""


def judged(told: Story, seconds: float) -> dict[float, str]:
    """Second → kind, of those seconds at which the judge is asked."""
    model, window, pace = RunModel(), EvidenceWindow(), Pace()
    found = {}
    for second, group in groupby(told.play(seconds).events, key=lambda event: int(event.at - T0)):
        batch: list[Event] = list(group)
        for event in batch:
            model.fold(event)
            window.fold(event)
        if pace.is_due(window.stirs, T0 + second):
            verdict = judge(model, window, T0 + second)
            pace.judged(verdict, window.stirs, T0 + second)
            found[float(second)] = verdict.verdict
    return found


def gaps(found: dict[float, str], begin: float) -> set[float]:
    times = [second for second in found if second >= begin]
    return {after - before for before, after in pairwise(times)}


def test_a_dead_lock_is_judged_each_second_until_it_is_settled_and_seldom_from_then_on() -> None:
    found = judged(Story(tp=2).up_to("kv-pool").quiet(31).stacks(STACK), 120)
    said = next(second for second, kind in found.items() if kind == "deadlock-silent")
    assert said <= 31 + 30
    assert gaps({second: kind for second, kind in found.items() if second <= said + 15}, 31) == {1.0}
    assert gaps(found, said + 16) == {SETTLED_EVERY_S}


def test_what_spins_evenly_is_settled_too() -> None:
    told = Story(tp=2).up_to("kv-pool").quiet(31).gpu(None, 31, **GPU_SPINS)
    told.all(31, tree_cpu_percent=100.0, cpu_percent=100.0, state="R")
    found = judged(told, 120)
    assert found[max(found)] == "deadlock-spinning"
    assert gaps(found, 100) == {SETTLED_EVERY_S}


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.rank("TP1", 103, read_bps=5e6),
        lambda told: told.rank("TP1", 103, tree_cpu_percent=80.0),
        lambda told: told.rank("TP1", 103, state="T"),
        lambda told: told.rank("TP1", 103, children={"nvcc": 1}),
        lambda told: told.gpu(1, 103, util_percent=60.0, power_w=300.0),
        lambda told: told.dies(103, "TP1"),
        lambda told: told.says(103, LAUNCHER, "anything"),
        lambda told: told.kernel(103, "xid", "NVRM: Xid (PCI:0000:3b:00): 79"),
    ],
    ids=["bytes", "CPU", "stopped", "compiler", "GPU", "death", "log", "kernel"],
)
def test_whatever_begins_is_judged_at_once(change: object) -> None:
    told = Story(tp=2).up_to("kv-pool").quiet(31).stacks(STACK)
    assert callable(change)
    found = judged(change(told), 110)
    assert gaps(found, 80) - {SETTLED_EVERY_S}
    assert 103.0 in found


def test_what_works_is_judged_each_second() -> None:
    found = judged(Story(tp=2).up_to("weights").reads(20, 5e6), 120)
    assert found[max(found)] == "reading"
    assert gaps(found, 20) == {1.0}
