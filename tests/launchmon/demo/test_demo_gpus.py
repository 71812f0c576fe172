"""The simulated GPUs: from what a rank does to what NVML would say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launchmon.demo.driver import OWN_USE, Board, Report, alive, watch
from launchmon.demo.gpus import DIRECTORY_PREFIX, GB, Gpu, Slots
from launchmon.demo.scenarios import scenario
from launchmon_agent import codec, events

MODEL = scenario("healthy").gpu


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(str(tmp_path), 8)


def test_slots_are_shared_through_the_file(slots: Slots, tmp_path: Path) -> None:
    Slots(str(tmp_path), 8).write(3, 5 * GB, 0.5, 0.25)
    assert slots.read(3) == (os.getpid(), 5 * GB, 0.5, 0.25)
    assert slots.read(2) == (0, 0, 0.0, 0.0)


def test_a_rank_takes_memory_and_works(slots: Slots) -> None:
    gpu = Gpu(slots, 1, 96.0)
    gpu.take(60.0)
    gpu.work(0.5, 0.4)
    gpu.take(6.0)
    assert gpu.free_gb == 30.0
    assert slots.read(1) == (os.getpid(), 66 * GB, 0.5, 0.4)
    gpu.work()
    assert slots.read(1) == (os.getpid(), 66 * GB, 0.0, 0.0)


def test_the_report_has_the_fields_of_the_vocabulary(slots: Slots) -> None:
    Gpu(slots, 0, MODEL.memory_gb).take(1.0)
    for body in Board(slots, MODEL).sample(0.0):
        gpu = codec.from_json(events.Gpu, body)
        assert set(body) <= set(events.Gpu.__dataclass_fields__)
        assert gpu.name == MODEL.name
        assert gpu.memory_total == int(MODEL.memory_gb * GB)


def test_an_idle_and_a_working_gpu(slots: Slots) -> None:
    Gpu(slots, 0, MODEL.memory_gb).work(0.6, 0.5)
    busy, idle = Board(slots, MODEL).sample(5.0)[:2]
    assert (busy["util_percent"], busy["memory_util_percent"]) == (60.0, 50.0)
    assert (idle["util_percent"], idle["memory_util_percent"]) == (0.0, 0.0)
    assert MODEL.idle_w <= idle["power_w"] < MODEL.idle_w + 4 < busy["power_w"] < MODEL.power_limit_w
    assert idle["temperature_c"] < busy["temperature_c"] < MODEL.hot_c
    assert (busy["sm_clock_mhz"], idle["sm_clock_mhz"]) == (MODEL.busy_mhz, MODEL.idle_mhz)
    assert busy["processes"] == [{"pid": os.getpid(), "memory": 0}]


def test_the_full_load_stays_within_the_power_limit(slots: Slots) -> None:
    for index in range(8):
        Gpu(slots, index, MODEL.memory_gb).work(1.0, 1.0)
    assert all(gpu["power_w"] <= MODEL.power_limit_w for gpu in Board(slots, MODEL).sample(1.0))


def test_memory_comes_back_when_the_process_is_gone(slots: Slots, tmp_path: Path) -> None:
    code = "import sys; from launchmon.demo.gpus import Gpu, Slots; Gpu(Slots(sys.argv[1], 8), 2, 96.0).take(50.0)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    board = Board(slots, MODEL)
    assert slots.read(2)[1] == 50 * GB
    assert not board.in_use()
    assert board.sample(1.0)[2]["memory_used"] == OWN_USE
    assert board.sample(1.0)[2]["processes"] == []


def test_a_zombie_holds_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not alive(child.pid)
    child.wait()
    assert alive(os.getpid())
    assert not alive(0)


def test_report_makes_its_directory_and_removes_it(tmp_path: Path) -> None:
    path = tmp_path / f"{DIRECTORY_PREFIX}x" / "gpus.json"
    report = Report(str(path))
    report.write([{"index": 0}])
    assert json.loads(path.read_text()) == {"gpus": [{"index": 0}]}
    assert os.listdir(path.parent) == ["gpus.json"]
    assert path.parent.stat().st_mode & 0o777 == 0o700
    report.remove()
    assert not path.parent.exists()
    report.remove()


def test_report_leaves_a_directory_that_is_not_the_demos(tmp_path: Path) -> None:
    report = Report(str(tmp_path / "gpus.json"))
    report.write([])
    report.remove()
    assert list(tmp_path.iterdir()) == []


def test_report_notices_that_another_driver_has_taken_over(tmp_path: Path) -> None:
    first, second = (Report(str(tmp_path / "gpus.json")) for _ in range(2))
    first.write([])
    assert not first.taken_over()
    second.write([])
    assert first.taken_over()
    assert not second.taken_over()


def test_a_report_is_written_though_its_directory_was_removed_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{DIRECTORY_PREFIX}x" / "gpus.json"
    makedirs, removed = os.makedirs, iter((True,))

    def made_and_removed(name: str, mode: int, *, exist_ok: bool) -> None:
        makedirs(name, mode, exist_ok=exist_ok)
        if next(removed, False):
            os.rmdir(name)

    monkeypatch.setattr(os, "makedirs", made_and_removed)
    Report(str(path)).write([])
    assert json.loads(path.read_text()) == {"gpus": []}


class Contested(Report):
    """Another driver has always written since. Its launcher ends with the third report."""

    def __init__(self, path: str, launcher: int) -> None:
        super().__init__(path)
        self.launcher = launcher
        self.written = 0

    def write(self, gpus: list[dict[str, Any]]) -> None:
        super().write(gpus)
        self.written += 1
        if self.written == 3:
            os.close(self.launcher)

    def taken_over(self) -> bool:
        return True


def test_a_driver_yields_to_another_only_when_its_launcher_has_gone(slots: Slots, tmp_path: Path) -> None:
    """The one before may write its last report over the first of this one."""
    read_end, write_end = os.pipe()
    report = Contested(str(tmp_path / "gpus.json"), write_end)
    watch(Board(slots, MODEL), report, read_end, 0.001)
    os.close(read_end)
    assert report.written == 3
