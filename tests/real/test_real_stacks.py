"""Stacks of the genuine SGLang: who is stuck in a launch, who waits, and what that means."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from launchmon_agent.events import Run, Stacks
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.processes import ProcessSensor
from launchmon_agent.stacks.dump import Dumper
from launchmon_agent.stacks.merge import Merged, merge
from launchmon_agent.stacks.plant import home_of, plant
from tests.real.rig import Rig, Server
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]

STUCK = "TP1:sglang.srt.model_loader.loader:DefaultModelLoader.load_model:lock"


def start(rig: Rig) -> Server:
    """As ``rig.start``, with the launch hook, which then hands over to the rig's own ``sitecustomize``."""
    port = free_port()
    argv, env = rig.command("--tp", "2", port=port, LAUNCHMON_RIG_STUCK=STUCK)
    planted = plant(str(rig.workdir), env)
    server = Server(argv, planted, rig.workdir, rig.workdir / f"server-{port}.log", port)
    rig.sessions.add(server.pid)
    return server


def dumper_of(server: Server) -> Callable[..., Stacks]:
    """Takes dumps of the run as it is at each moment."""
    began = proc.start_time(server.pid)
    assert began is not None
    sensor = ProcessSensor(server.pid, began, session=server.pid)
    sensor.expect(["TP0", "TP1"])
    run = Run(time.time(), id="real", argv=server.argv, pid=server.pid, start_time=began, tp=2)

    def take(hook: str | None = None, program: str | None = None, native: bool = False) -> Stacks:
        processes = sensor.sample(time.time(), None).processes
        return Dumper(run, processes, hook=hook, program=program, limit_s=60.0).dump(native=native)

    return take


def meanings(merged: Merged) -> list[tuple[str, str]]:
    groups = (*merged.groups, *merged.others)
    return [(group.label, group.explanation.id if group.explanation else "") for group in groups]


def test_a_rank_stuck_in_the_loader_is_first_and_all_are_explained(rig: Rig) -> None:
    server = start(rig)
    take = dumper_of(server)
    expected = [("TP1", "loading"), ("TP0", "load-barrier"), ("launcher", "wait-for-ready")]
    until(lambda: meanings(merge(take())) == expected, 300)

    earlier, later = take(), take()
    merged = merge(later, [earlier])
    assert [group.ranks for group in merged.groups] == [("TP1",), ("TP0",)]
    assert {change.who: change.unchanged for change in merged.changes} == {"launcher": 1, "TP0": 1, "TP1": 1}
    assert {stack.means for stack in later.stacks} <= {"py-spy", "py-spy --nonblocking"}
    assert all(stack.problem is None and not stack.continued for stack in later.stacks)

    native = take(native=True)
    assert meanings(merge(native)) == expected
    assert any(frame.native for frame in native.frames)

    hooked = take(hook=home_of(str(rig.workdir)), program="/nonexistent/py-spy")
    assert {stack.means for stack in hooked.stacks} == {"faulthandler"}
    assert meanings(merge(hooked)) == expected
    assert server.process.poll() is None
