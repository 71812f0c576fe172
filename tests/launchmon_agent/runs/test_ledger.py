"""Attempts beside each other: how far each got, which is best, what changed since it last worked."""

from __future__ import annotations

from launchmon_agent.events import Action, Event, Exit, Mark, Run, Verdict
from launchmon_agent.runs.directory import RunFile
from launchmon_agent.runs.ledger import Attempt, attempt_of, ledger

ARGV = ("python", "-m", "sglang.launch_server", "--model-path", "m")


def file(number: int, *more: str, **fields: object) -> RunFile:
    return RunFile(f"run-{number}", (*ARGV, *more), 100.0 * number, series="run-1", attempt=number, **fields)  # type: ignore[arg-type]


def story(began: float, *, ready: bool = False) -> list[Event]:
    events: list[Event] = [
        Run(began, id="r", argv=ARGV, pid=7, start_time=began, launched=True),
        Mark(began + 2, id="args", what="info", values={"tp_size": "1"}),
        Mark(began + 6, id="dist", what="begin", phase="dist-init", rank="TP0"),
        Mark(began + 8, id="dist", what="end", phase="dist-init", rank="TP0"),
        Mark(began + 8, id="weights", what="begin", phase="weights", rank="TP0"),
        Verdict(began + 20, verdict="reading", summary="it reads"),
    ]
    if ready:
        events.append(Mark(began + 30, id="ready", what="begin", phase="ready"))
        events.append(Verdict(began + 31, verdict="ready"))
    return events


def test_an_attempt_that_hung_was_killed_by_launchmon_and_keeps_its_own_verdict() -> None:
    events = [
        *story(100.0),
        Verdict(140.0, verdict="deadlock-silent", summary="nothing moves"),
        Action(150.0, action="kill", id="k", step="TERM launcher", state="done"),
        Verdict(150.5, verdict="crashed"),
        Exit(151.0, pid=7, start_time=100.0, role="launcher", code=-15),
        Verdict(152.0, verdict="stopped"),
    ]
    row = attempt_of(file(1), events, now=999.0, alive=False)
    assert (row.phase, row.verdict, row.summary) == ("weights", "deadlock-silent", "nothing moves")
    assert (row.ended_by, row.exit_code, row.lasted_s, row.ready_s) == ("launchmon", -15, 51.0, None)
    assert row.seconds["dist-init"] == 2.0 and row.seconds["weights"] == 43.0
    assert not row.ready


def test_an_attempt_that_lives_is_measured_until_now() -> None:
    row = attempt_of(file(2), story(200.0, ready=True), now=260.0, alive=True)
    assert (row.ready_s, row.lasted_s, row.ended_by, row.verdict) == (30.0, 60.0, None, "ready")


def test_an_attempt_without_a_recording_is_known_by_its_file_alone() -> None:
    row = attempt_of(file(3, change=("+ --x",)), [], now=999.0, alive=False)
    assert (row.phase, row.verdict, row.change, row.ended_by) == (None, None, ("+ --x",), "itself")


def row(number: int, phase: str, ready_s: float | None = None) -> Attempt:
    return Attempt(f"run-{number}", number, None, float(number), "", phase=phase, ready_s=ready_s)


def test_the_best_is_ready_soonest_else_the_one_that_came_furthest() -> None:
    files = [file(number) for number in (1, 2, 3)]
    assert ledger("run-1", files, [row(1, "weights"), row(2, "graphs"), row(3, "weights")]).best == "run-2"
    assert ledger("run-1", files, [row(1, "weights"), row(2, "weights")]).best == "run-2"
    found = ledger("run-1", files, [row(3, "ready", 20.0), row(1, "ready", 30.0), row(2, "graphs")])
    assert [one.attempt for one in found.attempts] == [1, 2, 3]
    assert [one.best for one in found.attempts] == [False, False, True]
    assert ledger("run-1", [], []).best is None


def test_what_changed_since_it_last_worked_spans_all_attempts_between() -> None:
    files = [file(1), file(2, "--tp", "2", env={"A": "1"}), file(3, "--tp", "4", env={"A": "1"})]
    found = ledger("run-1", files, [row(1, "ready", 9.0), row(2, "weights"), row(3, "weights")])
    assert (found.worked, found.since_it_worked) == ("run-1", ("+ --tp 4", "+ A=1"))
    assert ledger("run-1", files, [row(1, "weights"), row(2, "ready", 9.0)]).since_it_worked is None
    assert ledger("run-1", files, [row(1, "weights")]).worked is None
