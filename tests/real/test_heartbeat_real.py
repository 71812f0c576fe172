"""The heartbeat of a genuine server: near zero while it idles, growing while a peer is stopped, and well again."""

from __future__ import annotations

import os
import signal
import time

import pytest

from launchmon_agent.events import Beat, Process
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.heartbeat import HeartbeatSensor
from tests.real.rig import Rig
from tests.support.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]

STUCK_S = 3.0


def test_idle_stopped_and_continued(rig: Rig) -> None:
    server = rig.start("--tp", "2")
    server.wait_ready()
    ranks = server.ranks()
    processes = [
        Process(pid, proc.start_time(pid) or 0.0, "scheduler", rank=rank) for rank, pid in sorted(ranks.items())
    ]
    sensor = HeartbeatSensor()

    def beat() -> Beat:
        (only,) = sensor.sample(time.time(), processes).beats
        return only

    def is_young(now: Beat) -> bool:
        return now.age_s is not None and now.age_s < 0.5

    assert (beat().rank, beat().initialised) == ("TP0", True)
    until(lambda: is_young(now := beat()) and (now.running, now.waiting) == (0, 0))

    os.kill(ranks["TP1"], signal.SIGSTOP)
    try:
        until(lambda: (beat().age_s or 0.0) > STUCK_S)
    finally:
        os.kill(ranks["TP1"], signal.SIGCONT)
    until(lambda: is_young(beat()))
