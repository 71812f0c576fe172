"""Whether the way is free for another attempt."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.events import Gpu, GpuProcess, Gpus, Run
from launchmon_agent.runs.clearing import SLACK, GpuLevels, not_given_back, refuse_foreign_port

GIB = 1 << 30


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def test_a_foreign_server_on_the_port_is_named(port: int) -> None:
    with pytest.raises(Refused, match=f"Port {port} is held by process {os.getpid()}: ") as caught:
        refuse_foreign_port(port, {os.getppid()})
    assert caught.value.try_ == f"launchmon relaunch --add --port={port + 1}"


def test_the_run_itself_on_the_port_is_no_reason(port: int) -> None:
    refuse_foreign_port(port, {os.getpid()})
    refuse_foreign_port(None, ())


def gpus(at: float, *used: int, processes: tuple[GpuProcess, ...] = ()) -> Gpus:
    return Gpus(at, gpus=tuple(Gpu(index, memory_used=one, processes=processes) for index, one in enumerate(used)))


RUN = Run(100.0, id="r", launched=True, start_time=100.0)


def test_the_level_is_what_others_use_while_the_run_is_alive() -> None:
    sample = gpus(200.0, 70 * GIB, processes=(GpuProcess(7, 60 * GIB), GpuProcess(8, 10 * GIB)))
    assert GpuLevels().before(sample, {7}) == {0: 10 * GIB}
    assert GpuLevels().before(sample, {9}) == {}  # nothing is known of its processes
    assert GpuLevels().before(None, {7}) == {}


def test_the_level_is_that_of_the_first_seconds_where_processes_cannot_be_told() -> None:
    levels = GpuLevels()
    levels.note(gpus(101.0, GIB, 2 * GIB), RUN)
    levels.note(gpus(102.0, 50 * GIB, 50 * GIB), RUN)
    assert levels.before(gpus(200.0, 70 * GIB, 70 * GIB), {7}) == {0: GIB, 1: 2 * GIB}


def test_a_late_first_sample_says_nothing() -> None:
    levels = GpuLevels()
    levels.note(gpus(160.0, 50 * GIB), RUN)
    levels.note(gpus(101.0, GIB), None)
    assert levels.before(gpus(200.0, 70 * GIB), {7}) == {}


def test_memory_that_does_not_come_back_is_named_with_who_has_it() -> None:
    levels = {0: GIB, 1: GIB}
    assert not_given_back(levels, gpus(1.0, GIB + SLACK, GIB)) is None
    held = not_given_back(levels, gpus(1.0, GIB, 41 * GIB, processes=(GpuProcess(os.getpid(), 40 * GIB),)))
    assert held is not None and held.startswith(f"GPU 1: 40.0 GiB more than before, by process {os.getpid()} (")
    assert "GPU 0" not in held
    nobody = not_given_back({0: 0}, gpus(1.0, 40 * GIB))
    assert nobody == "GPU 0: 40.0 GiB more than before, by nobody that can be seen"
