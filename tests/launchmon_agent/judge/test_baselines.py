"""What earlier runs say of this one's phases."""

from __future__ import annotations

import dataclasses

import pytest

from launchmon_agent.codec import decode, encode
from launchmon_agent.events import Expected, Mark, Run
from launchmon_agent.judge.baselines import NEWEST, PastRun, expectation, expected_of, is_warm, past_run
from launchmon_agent.judge.tables import sections
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.rail import RAIL

RUN = Run(1000.0, id="r", model="/m/kimi", engine_version="0.5.12", tp=8, start_time=1000.0)


def past(at: float = 500.0, warm: bool | None = True, boot: str = "b", **seconds: float) -> PastRun:
    named = {name.replace("_", "-"): value for name, value in seconds.items()}
    return PastRun(at, "/m/kimi", "0.5.12", tp=8, boot=boot, warm=warm, ready=True, seconds=named)


LOADED = past(100.0, False, weights=400.0)
"""A cold run on this boot: those after it are warm."""


def test_the_median_of_runs_like_this_one() -> None:
    runs = [past(200 + number, kv_pool=value, weights=20.0) for number, value in enumerate((1.0, 9.0, 2.0))]
    found = expected_of(RUN, [LOADED, *runs], "b", 1000.0)
    assert (found.runs, found.warm, found.usual, found.longest) == (
        *(3, True),
        {"kv-pool": 2.0, "weights": 20.0},
        {"kv-pool": 9.0, "weights": 20.0},
    )
    kv_pool = expectation("kv-pool", found)
    assert kv_pool is not None
    assert (kv_pool.usual_s, kv_pool.longest_s, kv_pool.runs, kv_pool.words) == (2.0, 9.0, 3, "usually 2 s")


@pytest.mark.parametrize(
    "change",
    [
        {"model": "/m/other"},
        {"version": "0.5.11"},
        {"tp": 4},
        {"pp": 2},
        {"dp": 2},
        {"nnodes": 2},
        {"node_rank": 1},
        {"simulated": True},
        {"at": 1000.5},
    ],
)
def test_other_runs_say_nothing(change: dict[str, object]) -> None:
    other = dataclasses.replace(past(weights=1.0), **change)  # type: ignore[arg-type]
    assert expected_of(RUN, [LOADED, other], "b", 1000.0).runs == 0


def test_cold_and_warm_runs_are_kept_apart() -> None:
    runs = [past(50.0, False, boot="a", weights=500.0), LOADED, past(200.0, True, weights=20.0)]
    assert expected_of(RUN, runs, "b", 1000.0).usual == {"weights": 20.0}
    after_a_boot = expected_of(RUN, runs, "c", 1000.0)
    assert (after_a_boot.warm, after_a_boot.runs, after_a_boot.usual) == (False, 2, {"weights": 450.0})


def test_only_the_newest_count() -> None:
    runs = [past(200.0 + number, weights=float(number)) for number in range(40)]
    found = expected_of(RUN, [LOADED, *reversed(runs)], "b", 1000.0)
    assert (found.runs, found.longest["weights"]) == (NEWEST, 39.0)
    assert found.usual["weights"] == 33.5


def test_warm_is_who_comes_after_one_that_read_the_files_on_this_boot() -> None:
    assert is_warm("/m/kimi", [LOADED], "b", 1000.0) is True
    assert is_warm("/m/kimi", [LOADED], "b", 50.0) is False
    assert is_warm("/m/kimi", [LOADED], "c", 1000.0) is False
    assert is_warm("/m/other", [LOADED], "b", 1000.0) is False
    assert is_warm("/m/kimi", [past(start=3.0)], "b", 1000.0) is False, "it never came to the weights"
    assert is_warm("/m/kimi", [LOADED], None, 1000.0) is None
    assert is_warm(None, [LOADED], "b", 1000.0) is None


def test_without_earlier_runs_a_table_tells() -> None:
    for expected in (None, Expected(0.0), Expected(0.0, runs=1, usual={"start": 3.0})):
        found = expectation("kv-pool", expected)
        assert found is not None and found.runs == 0
        assert (found.usual_s, found.longest_s) == (3.0, 60.0)
        assert found.words == "by public logs 3 s, seldom beyond 1m00s"
    assert expectation("ready", None) is None


def test_a_run_becomes_a_past_run() -> None:
    model = RunModel()
    assert past_run(model, 0.0, "b", None) is None
    model.fold(dataclasses.replace(RUN, tp=1))
    for at, id_, what, phase, rank in (
        (1010, "args", "end", "start", "launcher"),
        (1020, "dist", "begin", "dist-init", "TP0"),
        (1022, "weights", "begin", "weights", "TP0"),
        (1052, "weights", "end", "weights", "TP0"),
    ):
        model.fold(Mark(float(at), id=id_, what=what, phase=phase, rank=rank))
    found = past_run(model, 1100.0, "b", True)
    assert found is not None
    assert found.is_like(dataclasses.replace(RUN, tp=1)) and found.loaded and not found.ready
    assert found.seconds == {"start": 10.0, "spawn": 10.0, "dist-init": 2.0, "weights": 30.0}, (
        "the open phase is left out"
    )


def test_the_event_survives_its_way() -> None:
    found = expected_of(RUN, [LOADED, past(200.0, kv_pool=2.0)], "b", 1000.0)
    assert decode(encode(found)) == found


TABLE = sections("expected.table", ("usual", "longest", "source"))


@pytest.mark.parametrize("phase, fields", TABLE, ids=[phase for phase, _ in TABLE])
def test_each_row(phase: str, fields: dict[str, str]) -> None:
    assert phase in RAIL or phase in ("download", "jit")
    assert 0 < float(fields["usual"]) < float(fields["longest"])


def test_every_phase_with_an_end_is_in_the_table() -> None:
    assert {phase for phase, _ in TABLE} == {*RAIL, "download", "jit"} - {"ready"}
