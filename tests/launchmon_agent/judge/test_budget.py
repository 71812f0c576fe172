"""The arithmetic behind "raise" and "lower": from the numbers that the log tells, and not where it does not."""

from __future__ import annotations

import pytest

from launchmon_agent.events import LAUNCHER, Verdict
from launchmon_agent.judge.budget import Budget
from tests.support.story import Story

NO_CACHE = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def failed(phase: str, at: float, error: str, fraction: float | None, after: float = 30.0) -> Verdict:
    """90 GB were free before the weights of both ranks; ``after`` is what TP1 has left."""
    flags = () if fraction is None else ("--mem-fraction-static", str(fraction))
    told = Story(tp=2, argv=("python", "-m", "sglang.launch_server", *flags)).up_to(phase)
    if after != 30.0:
        told.says(29, "TP1", f"Load weight end. elapsed=10.00 s, type=LlamaForCausalLM, avail mem={after:.2f} GB.")
    told.says(at, "TP1", "Scheduler hit an exception: Traceback (most recent call last):")
    told.bare(at, f'  File "scheduler.py", line 1, in run\n    work()\n{error}\n')
    return told.dies(at + 1, "TP0").dies(at + 1, "TP1").dies(at + 1, LAUNCHER).play(at + 10).last


def test_the_fraction_that_is_needed_is_worked_out() -> None:
    summary = failed("kv-pool", 31, NO_CACHE, 0.6).summary
    assert (
        "90.0 GB were free before the weights and 30.0 GB after them; at 0.6 36.0 GB are kept for activations, "
        "which leaves -6.0 GB for the KV cache: it takes more than 0.67." in summary
    )


def test_where_no_fraction_helps_that_is_said() -> None:
    summary = failed("kv-pool", 31, NO_CACHE, 0.9, after=1.5).summary
    assert "which leaves -7.5 GB for the KV cache: no fraction helps" in summary


def test_at_the_graphs_it_is_the_reserve_that_counts() -> None:
    assert "At 0.9 of 90.0 GB 9.0 GB are left for graphs and activations." in failed("graphs", 33, OOM, 0.9).summary


@pytest.mark.parametrize("fraction", [None, 0.9])
def test_what_the_numbers_do_not_bear_out_is_not_said(fraction: float | None) -> None:
    summary = failed("kv-pool", 31, NO_CACHE, fraction).summary
    assert "the fraction has to go up" in summary
    assert "GB were free" not in summary


def test_the_least_fraction_is_rounded_up() -> None:
    assert Budget(90.0, 30.0, 0.5).least_fraction == 0.67
    assert Budget(100.0, 20.0, 0.5).least_fraction == 0.81
    assert Budget(90.0, 30.0, 0.7).cache > 0
