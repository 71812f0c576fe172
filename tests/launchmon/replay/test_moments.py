"""The marks on the time line of a recording."""

from __future__ import annotations

from itertools import pairwise

from launchmon.replay.moments import MOST_ERRORS, moments
from launchmon.replay.recorded import Recorded
from launchmon_agent.events import Action, Exit, Kernel, LogError, Run, Verdict
from tests.support.replaying import recorded, seed_lines


def test_the_story_of_a_dead_lock_in_marks() -> None:
    recording = Recorded(seed_lines())
    found = moments(recording)
    phases = [one.text for one in found if one.kind == "phase"]
    assert phases == ["start", "spawn", "dist init", "weights", "kv pool"]
    assert [one.text for one in found if one.kind == "trouble"] == ["deadlock-silent"]
    assert sum(one.kind == "dump" for one in found) == 3
    assert sum(one.kind == "exit" for one in found) == 10
    assert [one.text for one in found if one.kind == "action"] == ["kill"]
    assert all(one.position <= two.position and one.at <= two.at for one, two in pairwise(found))


def test_a_jump_to_a_mark_shows_what_it_says() -> None:
    recording = Recorded(seed_lines())
    for one in moments(recording):
        model = recording.model_at(one.position)
        if one.kind in ("verdict", "trouble"):
            assert model.verdict is not None
            assert model.verdict.verdict == one.text
        elif one.kind == "phase":
            assert model.phases.run_phase().replace("-", " ") == one.text


def test_each_error_exit_and_verdict_once() -> None:
    found = moments(
        recorded(
            Run(1.0, id="r"),
            LogError(2.0, "TP1", 10, "oom", "fatal", "CUDA out of memory"),
            LogError(2.0, "TP1", 10, "oom", "fatal", "CUDA out of memory", detail="RuntimeError: gone"),
            LogError(3.0, "TP0", 20, "x", "warning", "a warning"),
            Verdict(4.0, verdict="crashed", summary="a"),
            Verdict(5.0, verdict="crashed", summary="b"),
            Exit(6.0, pid=7, role="scheduler", rank="TP1", code=-9),
            Kernel(7.0, what="oom-kill", text="killed 7"),
            Action(8.0, action="kill", id="kill-1", step="TERM"),
            Action(9.0, action="kill", id="kill-1", step="done"),
        )
    )
    assert [(one.kind, one.text) for one in found if one.kind != "phase"] == [
        ("error", "TP1: CUDA out of memory"),
        ("trouble", "crashed"),
        ("exit", "TP1 ended with -9"),
        ("error", "kernel: killed 7"),
        ("action", "kill"),
    ]


def test_a_server_that_fails_at_each_request_does_not_fill_the_line() -> None:
    errors = [LogError(float(number), "TP0", number, "x", "error", "no") for number in range(MOST_ERRORS + 50)]
    found = moments(recorded(Run(0.0, id="r"), *errors))
    assert sum(one.kind == "error" for one in found) == MOST_ERRORS
