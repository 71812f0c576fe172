"""Whose time a model goes by: the target's, also when its clock is set."""

from __future__ import annotations

from launchmon.cluster.model import ClusterModel
from launchmon_agent.events import Event, Gpus, Notice, Processes, Run
from launchmon_agent.model import RunModel


def now_after(*events: Event) -> float:
    model = RunModel()
    for event in events:
        model.fold(event)
    return model.now


def test_it_is_the_newest_time_that_was_observed() -> None:
    assert now_after(Processes(100.0), Gpus(101.0), Notice(99.0, source="gpu", text="late")) == 101.0


def test_it_goes_back_with_a_clock_that_is_set_back() -> None:
    assert now_after(Processes(4000.0), Gpus(4000.5), Processes(401.0)) == 401.0
    assert now_after(Processes(4000.0), Processes(401.0), Gpus(401.5), Processes(402.0)) == 402.0


def test_it_stays_when_the_last_samples_are_told_again() -> None:
    assert now_after(Processes(100.0), Gpus(101.0), Processes(98.0)) == 101.0


def test_it_stays_when_a_sensor_was_held_up() -> None:
    assert now_after(Processes(100.0), Gpus(160.0), Processes(101.0)) == 160.0


def test_over_several_nodes_it_is_the_clients() -> None:
    model = ClusterModel(["a", "b"])
    for node, event in ((0, Run(1.0, id="r")), (0, Processes(4000.0)), (1, Processes(4000.0)), (1, Processes(401.0))):
        model.fold_of(node, event)
    assert model.now == 4000.0
