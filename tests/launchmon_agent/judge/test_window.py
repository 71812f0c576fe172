"""The evidence itself: gauges, tracks and the window over events."""

from __future__ import annotations

import pytest

from launchmon_agent.events import Gpu, Host, LastLine, Log, LogError, Process, Processes, Progress, Ras, Stacks
from launchmon_agent.judge.gauges import FRESH_S, Counter, Level, Rate
from launchmon_agent.judge.tracks import GpuTrack, ProcessTrack
from launchmon_agent.judge.window import ANSWERS, DUMPS, EvidenceWindow

SPIN = Gpu(0, util_percent=100.0, power_w=100.0, power_limit_w=700.0, memory_util_percent=0.0, memory_used=0)


def test_a_gauge_without_readings_is_missing_and_not_quiet() -> None:
    gauge = Rate(5, 20)
    gauge.feed(1.0, None)
    assert gauge.quiet_s(1.0) is None


def test_a_gauge_whose_readings_ended_is_missing() -> None:
    gauge = Rate(5, 20)
    gauge.feed(1.0, 0.0)
    assert gauge.quiet_s(3.0) == 2.0
    assert gauge.quiet_s(1.0 + FRESH_S + 0.1) is None


def test_one_small_reading_is_no_move_and_two_are() -> None:
    gauge = Rate(5, 20)
    for at, value in enumerate([0, 8, 0, 0, 0]):
        gauge.feed(float(at), float(value))
    assert gauge.moved_at is None
    for at, value in enumerate([8, 0, 8], 5):
        gauge.feed(float(at), float(value))
    assert gauge.moved_at == 7.0


def test_one_large_reading_is_a_move() -> None:
    gauge = Rate(5, 20)
    gauge.feed(1.0, 20.0)
    assert gauge.moved_at == 1.0


def test_slow_growth_adds_up_to_a_move() -> None:
    gauge = Level(10)
    moves = []
    for at in range(30):
        gauge.feed(float(at), at * 1.0)
        moves.append(gauge.moved_at)
    assert sorted({move for move in moves if move is not None}) == [10.0, 20.0]


def test_a_counter_that_starts_again_is_no_move() -> None:
    counter = Counter(1, 1)
    for at, value in enumerate([100.0, 100.0, 3.0, 3.0]):
        counter.feed(float(at), value)
    assert counter.moved_at is None
    counter.feed(4.0, 5.0)
    assert counter.moved_at == 4.0


def test_a_gpu_that_spins_has_not_worked_since_it_began_to() -> None:
    track = GpuTrack()
    track.feed(0.0, Gpu(0, util_percent=80.0, power_w=500.0, power_limit_w=700.0))
    for at in range(1, 21):
        track.feed(float(at), SPIN)
    assert track.spin_since == 1.0
    assert track.work_quiet_s(20.0, FRESH_S) == 19.0


@pytest.mark.parametrize(
    "gpu",
    [
        Gpu(0, util_percent=100.0, power_w=500.0, power_limit_w=700.0),
        Gpu(0, util_percent=100.0, power_w=100.0, power_limit_w=None),
        Gpu(0, util_percent=100.0, power_w=100.0, power_limit_w=700.0, memory_util_percent=30.0),
        Gpu(0, util_percent=60.0, power_w=100.0, power_limit_w=700.0),
    ],
)
def test_what_works_or_cannot_be_told_does_not_spin(gpu: Gpu) -> None:
    track = GpuTrack()
    for at in range(20):
        track.feed(float(at), gpu)
    assert track.spin_since is None
    assert track.work_quiet_s(19.0, FRESH_S) == 0.0


def test_power_that_varies_is_work() -> None:
    track = GpuTrack()
    for at in range(20):
        power = 100.0 + 40.0 * (at % 2)
        track.feed(float(at), Gpu(0, util_percent=100.0, power_w=power, power_limit_w=700.0))
    assert track.spin_since == 19.0


def test_idle_compile_workers_are_no_compile_and_busy_ones_are() -> None:
    track = ProcessTrack(Process(1, 0.0, "scheduler"))
    track.feed(1.0, Process(1, 0.0, "scheduler", cpu_percent=0.0, tree_cpu_percent=0.0, children={"inductor": 8}))
    assert track.compiled_at is None
    track.feed(2.0, Process(1, 0.0, "scheduler", cpu_percent=0.0, tree_cpu_percent=300.0, children={"inductor": 8}))
    assert (track.compiled_at, track.compilers) == (2.0, {"inductor": 8})


def test_a_process_keeps_its_history_when_it_gets_its_name() -> None:
    window = EvidenceWindow()
    window.fold(Processes(1.0, (Process(7, 0.0, "spawning", rank="TP0", tree_cpu_percent=100.0),)))
    window.fold(Processes(2.0, (Process(7, 0.0, "scheduler", rank="DP0 TP0", tree_cpu_percent=0.0),)))
    assert list(window.ranks) == ["DP0 TP0"]
    assert window.ranks["DP0 TP0"].cpu.moved_at == 1.0


def test_another_process_of_the_same_name_has_a_history_of_its_own() -> None:
    window = EvidenceWindow()
    window.fold(Processes(1.0, (Process(7, 0.0, "scheduler", rank="TP0", tree_cpu_percent=100.0),)))
    window.fold(Processes(2.0, (Process(8, 1.5, "scheduler", rank="TP0", tree_cpu_percent=0.0),)))
    assert window.ranks["TP0"].cpu.moved_at is None


def log(at: float, *lines: LastLine, grown_at: float | None = None) -> Log:
    return Log(at, grown_at=at if grown_at is None else grown_at, last=lines)


def test_access_lines_are_no_sign_of_life() -> None:
    window = EvidenceWindow()
    rank = LastLine("TP0", 10.0, "Prefill batch, #new-seq: 1", 100)
    window.fold(log(10.0, rank))
    window.fold(
        log(20.0, rank, LastLine("launcher", 20.0, 'INFO:     127.0.0.1:1 - "GET /model_info HTTP/1.1" 200', 200))
    )
    assert (window.spoken_at, window.batch_at) == (10.0, 10.0)


def test_bytes_of_a_bar_are_one() -> None:
    window = EvidenceWindow()
    line = LastLine("TP0", 10.0, "Load weight begin.", 100)
    window.fold(log(10.0, line))
    window.fold(log(20.0, line))
    window.fold(Progress(20.0, "TP0", "weights", "shards", 3, 96))
    assert window.spoken_at == 20.0


def test_the_dump_of_a_watchdog_that_only_warns_is_none() -> None:
    window = EvidenceWindow()
    window.fold(log(10.0, LastLine("TP0", 10.0, "Load weight end.", 100)))
    window.fold(LogError(30.0, "TP0", 200, "watchdog_soft", "warning", "soft=True"))
    window.fold(log(31.0, LastLine("TP0", 30.0, "Pyspy dump for PID 200:", 300)))
    assert window.spoken_at == 10.0


def test_what_is_kept_is_bounded() -> None:
    window = EvidenceWindow()
    for at in range(100):
        window.fold(Stacks(float(at), id=str(at)))
        window.fold(Ras(float(at), answered=str(at)))
        window.fold(Ras(float(at), answered=str(at)))
        window.fold(Host(float(at), disk_read_bps=0.0))
        window.fold(Processes(float(at), (Process(at, 0.0, "scheduler", rank="TP0"),)))
    assert (len(window.dumps), len(window.ras), len(window.ranks)) == (DUMPS, ANSWERS, 1)
