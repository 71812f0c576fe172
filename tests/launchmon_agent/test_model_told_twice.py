"""What a model is told twice counts once: by another agent, that read the same log and saw the same processes."""

from __future__ import annotations

from dataclasses import replace

from launchmon_agent.events import Action, Event, Exit, Gpu, Gpus, Kernel, Log, LogError, Mark, Notice, Run, Stacks
from launchmon_agent.model import RunModel
from tests.support.curves import utilisation

STORY: tuple[Event, ...] = (
    Run(1.0, id="r"),
    Log(1.0, size=10, file="a"),
    Mark(10.0, id="args", what="info", offset=0),
    Mark(20.0, id="weights", what="begin", phase="weights", rank="TP0", offset=50),
    Mark(30.0, id="weights", what="end", phase="weights", rank="TP0", offset=90),
    LogError(31.0, rank="TP0", offset=95, id="oom", severity="error"),
    Exit(32.0, pid=7, start_time=1.0, role="scheduler", rank="TP0"),
    Kernel(32.5, what="oom-kill", text="Out of memory: Killed process 7"),
    Notice(33.0, source="gpu", text="no driver"),
    Action(34.0, action="kill", id="k1", step="wait", state="doing"),
    Stacks(35.0, id="dump-35"),
    Gpus(36.0, gpus=(Gpu(0, util_percent=5.0),)),
)


def told(*stories: tuple[Event, ...]) -> RunModel:
    model = RunModel()
    for story in stories:
        for event in story:
            model.fold(event)
    return model


def state(model: RunModel) -> object:
    return (
        model.all_marks,
        model.errors,
        model.exits,
        model.kernel,
        model.notices,
        model.actions,
        model.stacks,
        list(utilisation(model, 0)),
        model.phases.spans(),
    )


def test_the_same_again_changes_nothing() -> None:
    assert state(told(STORY, STORY)) == state(told(STORY))


def test_a_newcomer_to_a_run_that_was_killed_sees_what_was_cut_short() -> None:
    """A dying server complains of its ranks: whoever is told of that first would take it for a failure."""
    ends = (
        Action(60.5, action="kill", id="k1", step="TERM launcher", state="done"),
        Exit(60.6, pid=8, start_time=1.0, role="scheduler", rank="TP0", code=-9),
        LogError(60.0, rank="launcher", offset=200, id="sigquit_child", severity="consequence"),
        Exit(61.0, pid=1, start_time=1.0, role="launcher", code=-9),
    )
    there = told(STORY[:4], ends)
    newcomer = told(tuple(there.replay()))
    assert newcomer.phases.rail(99.0) == there.phases.rail(99.0)
    assert {cell.phase: cell.state for cell in newcomer.phases.rail(99.0)}["weights"] == "stopped"


def test_times_that_another_reader_makes_out_a_little_differently_are_the_same() -> None:
    again = tuple(
        replace(event, at=event.at + (40.0 if isinstance(event, Mark) else 0.5))
        for event in STORY
        if isinstance(event, (Mark, Kernel))
    )
    assert state(told(STORY, again)) == state(told(STORY))


def test_what_was_read_again_of_an_earlier_launch_is_not_of_this_one() -> None:
    earlier = (
        Mark(1.0, id="args", what="info", offset=0),
        Mark(2.0, id="weights", what="begin", phase="weights", rank="TP0", offset=50),
        LogError(3.0, rank="TP0", offset=60, id="oom", severity="error"),
    )
    now = (
        Log(100.0, size=900, launch_offset=500),
        Mark(300.0, id="args", what="info", offset=500),
        Mark(310.0, id="weights", what="begin", phase="weights", rank="TP0", offset=550),
        LogError(311.0, rank="TP0", offset=560, id="cuda", severity="error"),
    )
    once, twice = told(earlier, now), told(earlier, now, earlier, now)
    assert state(twice) == state(once)
    assert [error.id for error in twice.errors] == ["cuda"]


def test_another_file_at_the_same_place_is_another_story() -> None:
    replaced = (Log(40.0, size=10, file="b", generation=1), *(replace(event, at=50.0) for event in STORY[2:4]))
    model = told(STORY, replaced)
    assert [(mark.id, mark.at) for mark in model.all_marks] == [("args", 50.0), ("weights", 50.0)]
    for event in STORY[2:5]:  # of the file before, as who joins late is told
        model.fold(event)
    assert len(model.all_marks) == 2


def test_a_time_in_which_nobody_watched_is_a_hole() -> None:
    model = told(STORY)
    model.interrupted(3.4)
    model.fold(Gpus(40.0, gpus=(Gpu(0, util_percent=9.0),)))
    assert list(utilisation(model, 0)) == [5.0, None, None, None, 9.0]
