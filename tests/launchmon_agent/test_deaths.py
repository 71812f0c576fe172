"""When processes ended: as it was noticed, and never before those whose end was noticed earlier."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator

import pytest

from launchmon_agent.deaths import Deaths
from launchmon_agent.events import Exit, Process
from launchmon_agent.sensors import proc
from launchmon_agent.watch import Watch
from tests.launchmon_agent.test_watch import RUN, sensors


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def process(child: subprocess.Popen[bytes]) -> Process:
    began = proc.start_time(child.pid)
    assert began is not None
    return Process(child.pid, began, "launcher")


async def test_an_end_that_the_loop_has_not_noticed_yet_is_as_late_as_the_sample_that_tells_it(
    sleeper: subprocess.Popen[bytes],
) -> None:
    watch, one = Watch(RUN, sensors(), None), process(sleeper)
    watch._deaths.watch([one])
    sleeper.kill()
    sleeper.wait()  # the event loop has not turned since
    told = Exit(10.0, one.pid, one.start_time, one.role)
    assert watch._completed(told, seen=12.5).at == 12.5
    watch._deaths.close()


async def test_an_end_that_was_noticed_keeps_its_moment(sleeper: subprocess.Popen[bytes]) -> None:
    noticed = asyncio.Event()
    deaths = Deaths(lambda: 11.0, noticed.set)
    one = process(sleeper)
    deaths.watch([one])
    assert deaths.watches(one.pid, one.start_time) and deaths.at(one.pid, one.start_time) is None
    sleeper.kill()
    await asyncio.wait_for(noticed.wait(), 20)
    assert deaths.at(one.pid, one.start_time) == 11.0
    assert not deaths.watches(one.pid, one.start_time)


async def test_an_end_that_nobody_watched_for_is_as_the_sensor_says() -> None:
    assert Watch(RUN, sensors(), None)._completed(Exit(10.0, 7, 1.0, "launcher"), seen=12.5).at == 10.0


async def test_a_python_that_knows_no_pidfds_leaves_it_to_the_sensor(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    deaths, one = Deaths(lambda: 11.0, lambda: None), process(sleeper)
    deaths.watch([one])
    assert not deaths.watches(one.pid, one.start_time)
    assert deaths.at(one.pid, one.start_time) is None
