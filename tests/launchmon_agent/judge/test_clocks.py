"""Which timeout runs, from when, and what changes it."""

from __future__ import annotations

import pytest

from launchmon_agent.events import LogError, Mark, Run
from launchmon_agent.judge.clocks import ClockRow, Wait, clock_variables, clocks, rows
from launchmon_agent.model import RunModel
from launchmon_agent.sglang import table
from launchmon_agent.sglang.rail import RAIL
from launchmon_agent.sglang.versions import Versions

BEGAN = 1000.0


def launch(*marks: Mark, version: str | None = "0.5.12", argv: tuple[str, ...] = (), **args: str) -> RunModel:
    """A run of two ranks; ``marks`` follow the ``server_args=`` line."""
    variables = {name: args.pop(name) for name in tuple(args) if name.isupper()}
    model = RunModel()
    model.fold(Run(BEGAN, id="r", argv=argv, tp=2, engine_version=version, variables=variables, start_time=BEGAN))
    model.fold(Mark(BEGAN + 5, id="args", what="end", phase="start", values=args))
    for mark in marks:
        model.fold(mark)
    return model


def dist(rank: str, at: float) -> Mark:
    return Mark(BEGAN + at, id="dist", what="begin", phase="dist-init", rank=rank)


def weights(rank: str, at: float, what: str = "begin") -> Mark:
    return Mark(BEGAN + at, id="weights", what=what, phase="weights", rank=rank)


def at(model: RunModel, passed: float, **more: object) -> dict[str, tuple[float, float]]:
    found = clocks(model, BEGAN + passed, **more)  # type: ignore[arg-type]
    return {clock.id: (clock.ends_in_s, clock.latest_s) for clock in found}


# ------------------------------------------------------------------------------------------------------- what starts it


def test_nothing_runs_before_anything_is_known() -> None:
    assert clocks(RunModel(), 0.0) == ()
    assert at(launch(), 10) == {}


def test_the_rendezvous_runs_from_the_first_rank_that_waits() -> None:
    model = launch(dist("TP0", 20), dist("TP1", 50))
    assert at(model, 60) == {"rendezvous": (560, 560)}


def test_on_a_cpu_torch_waits_longer() -> None:
    assert at(launch(dist("TP0", 20), device="cpu"), 60) == {"rendezvous-cpu": (1760, 1760)}


def test_the_rendezvous_is_over_once_nccl_is_named() -> None:
    model = launch(dist("TP0", 20), Mark(BEGAN + 30, id="dist", what="info", phase="dist-init", rank="TP0"))
    assert at(model, 60) == {}


def test_a_stack_elsewhere_shows_that_it_is_no_rendezvous() -> None:
    model = launch(dist("TP0", 20))
    assert at(model, 60, wait=Wait(("ncclCommInitRank", "__init__"), BEGAN + 25)) == {}
    assert at(model, 60, wait=Wait(("_create_c10d_store",), BEGAN + 25)) == {"rendezvous": (560, 560)}


def test_the_load_barrier_runs_from_the_first_rank_that_is_done() -> None:
    model = launch(dist("TP0", 20), dist("TP1", 20), weights("TP0", 30), weights("TP1", 30))
    assert "load-barrier" not in at(model, 40)
    model.fold(weights("TP1", 50, "end"))
    assert at(model, 60) == {"load-barrier": (470, 470)}
    model.fold(weights("TP0", 70, "end"))
    assert "load-barrier" not in at(model, 80)


def test_the_load_barrier_was_shorter_up_to_0_5_7() -> None:
    marks = (dist("TP0", 20), dist("TP1", 20), weights("TP0", 30), weights("TP1", 30), weights("TP1", 50, "end"))
    assert at(launch(*marks, version="0.5.7"), 60)["load-barrier"] == (290, 290)
    assert at(launch(*marks, version="0.5.8"), 60)["load-barrier"] == (470, 470)
    assert at(launch(*marks, version=None), 60)["load-barrier"] == (470, 470), "not known: as the newest has it"


@pytest.mark.parametrize(
    "functions, clock, ends",
    [
        (("all_reduce", "init_memory_pool", "__init__"), "nccl-collective", 590),
        (("all_reduce", "GroupCoordinator.all_reduce", "forward"), "nccl-collective", 590),
        (("all_reduce", "get_available_gpu_memory", "profile_max_num_token"), "gloo-collective", 7190),
        (("wait", "broadcast", "broadcast_pyobj", "recv_requests"), "gloo-collective", 7190),
        (("barrier", "GroupCoordinator.barrier", "capture"), "gloo-collective", 7190),
        (("all_gather_object", "create_shared_buffer"), "gloo-collective", 7190),
        (("_store_based_barrier",), "store", 1790),
        (("recv", "_receive_ports_as_client"), "port-handshake", 590),
    ],
)
def test_a_wait_in_a_collective_has_the_clock_of_its_stack(functions: tuple[str, ...], clock: str, ends: float) -> None:
    assert at(launch(), 110, wait=Wait(functions, BEGAN + 100)) == {clock: (ends, ends)}


@pytest.mark.parametrize(
    "functions",
    [
        ("PyNcclCommunicator.all_reduce", "GroupCoordinator.all_reduce"),
        ("ncclAllReduce", "all_reduce"),
        ("custom_all_reduce", "all_reduce"),
        ("acquire", "__enter__", "build"),
        ("recv_bytes", "recv"),
        (),
    ],
)
def test_some_waits_have_no_clock_at_all(functions: tuple[str, ...]) -> None:
    assert at(launch(), 110, wait=Wait(functions, BEGAN + 100)) == {}


def test_gloos_clock_is_another_one_on_a_cpu() -> None:
    model = launch(device="cpu")
    assert at(model, 110, wait=Wait(("all_reduce", "forward"), BEGAN + 100)) == {"gloo-collective-cpu": (1790, 1790)}


def test_the_warm_up_has_its_limit() -> None:
    model = launch()
    for mark in (
        Mark(BEGAN + 30, id="http", what="begin", phase="http"),
        Mark(BEGAN + 31, id="http", what="end", phase="http"),
    ):
        model.fold(mark)
    assert model.phases.run_phase() == "warm-up"
    assert at(model, 131) == {"warm-up": (500, 500)}


def test_the_watchdog_is_polled_and_so_ends_at_some_time() -> None:
    assert at(launch(), 200, work_since=BEGAN + 100) == {"scheduler-watchdog": (205, 355)}
    assert at(launch(), 420, work_since=BEGAN + 100) == {"scheduler-watchdog": (0, 135)}


def test_what_is_overdue_has_been_stopped() -> None:
    assert at(launch(), 600, work_since=BEGAN + 100) == {}


def test_errors_start_clocks() -> None:
    model = launch()
    model.fold(LogError(BEGAN + 100, id="watchdog", severity="fatal", offset=1))
    assert at(model, 101) == {"watchdog-fired": (4, 4)}
    model = launch(version="0.5.13.post1")
    model.fold(LogError(BEGAN + 100, id="sigquit", severity="consequence", offset=1))
    assert at(model, 110) == {"crash-diagnostics": (55, 55)}


@pytest.mark.parametrize("given, left", [("0", 3), ("-1", 3), ("10", 13), ("", 63), ("soon", 63)])
def test_where_nothing_is_no_wait_zero_is_a_setting(given: str, left: float) -> None:
    variables = {"SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS": given}
    model = launch(version="0.5.13.post1", **variables)
    model.fold(LogError(BEGAN + 100, id="sigquit", severity="consequence", offset=1))
    assert at(model, 102) == {"crash-diagnostics": (left, left)}


def test_the_next_to_end_comes_first() -> None:
    model = launch(dist("TP0", 20))
    found = clocks(model, BEGAN + 100, work_since=BEGAN + 90)
    assert [clock.id for clock in found] == ["scheduler-watchdog", "rendezvous"]
    assert found[0].name == "scheduler watchdog" and found[0].effect.startswith("end the whole run")


# ------------------------------------------------------------------------------------------------------ what changes it


def test_a_flag_of_the_command_line_changes_it() -> None:
    for argv in (("--dist-timeout", "3600"), ("--dist-timeout=3600",)):
        assert at(launch(dist("TP0", 20), argv=argv), 60) == {"rendezvous": (3560, 3560)}


def test_what_sglang_made_of_the_flags_counts_more() -> None:
    model = launch(dist("TP0", 20), argv=("--dist-timeout", "3600"), dist_timeout="60")
    assert at(model, 60) == {"rendezvous": (20, 20)}


def test_a_flag_that_is_unset_leaves_the_default() -> None:
    assert at(launch(dist("TP0", 20), dist_timeout="None"), 60) == {"rendezvous": (560, 560)}
    assert at(launch(dist("TP0", 20), argv=("--dist-timeout",)), 60) == {"rendezvous": (560, 560)}


def test_a_variable_changes_it() -> None:
    marks = (
        Mark(BEGAN + 30, id="http", what="begin", phase="http"),
        Mark(BEGAN + 31, id="http", what="end", phase="http"),
    )
    assert at(launch(*marks, SGLANG_WARMUP_TIMEOUT="1800"), 131) == {"warm-up": (1700, 1700)}
    assert at(launch(*marks, SGLANG_WARMUP_TIMEOUT="-1"), 131) == {"warm-up": (500, 500)}


def test_a_version_without_it_has_no_such_clock() -> None:
    model = launch(version="0.5.12")
    model.fold(LogError(BEGAN + 100, id="sigquit", severity="consequence", offset=1))
    assert at(model, 110) == {}


def test_the_variables_that_matter() -> None:
    assert "SGLANG_WARMUP_TIMEOUT" in clock_variables()
    assert all(name.isupper() for name in clock_variables())


# --------------------------------------------------------------------------------------------------------------- table


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_each_row(row: ClockRow) -> None:
    if row.starts in ("phase", "first-done"):
        assert row.where in RAIL
    if row.starts == "error":
        assert row.where in {error.id for error in table.error_rows()}
    if row.until is not None:
        assert row.until in {(mark.id, mark.what) for mark in table.mark_rows()}
    assert bool(row.chains) == (row.starts == "stack") or row.starts in ("phase", "first-done")
    assert row.device in ("", "cpu", "gpu")
    assert row.until_at >= 1 and row.adds_s >= 0
    assert row.flag == "" or row.flag.startswith("--")
    assert all(seconds is None or 0 < seconds <= 7200 for seconds, _ in row.defaults)
    assert not row.effect.endswith(".") and not row.effect.startswith("will")
    assert row.message and row.source


def test_defaults_of_one_clock_do_not_overlap() -> None:
    for row in rows():
        for version in table.releases():
            held = [seconds for seconds, versions in row.defaults if versions.holds(version)]
            assert len(held) <= 1, f"{row.id} has two defaults in {version}"
            if row.versions.holds(version):
                assert held, f"{row.id} has no default in {version}"


def test_each_version_range_is_one_of_known_releases() -> None:
    first = Versions.parse(f"{table.releases()[0]}+")
    for row in rows():
        for end in (row.versions.since, row.versions.until):
            assert end is None or first.holds(".".join(map(str, end)))
