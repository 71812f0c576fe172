from __future__ import annotations

from launchmon_agent.events import Gpu, Gpus, Process, Processes
from launchmon_agent.model import RunModel
from launchmon_agent.samples import HISTORY
from tests.support.curves import utilisation


def gpus(at: float, *utils: float | None) -> Gpus:
    return Gpus(at, source="nvml", gpus=tuple(Gpu(index=index, util_percent=util) for index, util in enumerate(utils)))


def processes(at: float, cpu: float) -> Processes:
    rank = Process(pid=7, start_time=1.0, role="scheduler", rank="TP0", cpu_percent=cpu)
    launcher = Process(pid=6, start_time=1.0, role="launcher", cpu_percent=99.0)
    return Processes(at, processes=(launcher, rank))


def test_the_last_minute_of_each_gpu_and_rank_is_kept_in_order() -> None:
    model = RunModel()
    for second in range(HISTORY + 5):
        model.fold(gpus(float(second), second, None))
        model.fold(processes(float(second), second * 2.0))
    utils = [sample.util_percent for sample in model.samples.of_gpu(0) if sample]
    assert utils == list(range(5, HISTORY + 5))
    assert utilisation(model, 1) == (None,) * HISTORY
    assert [sample.cpu_percent for sample in model.samples.of_rank("TP0") if sample][-1] == 2.0 * (HISTORY + 4)
    assert model.samples.of_rank("TP1") == ()


def test_what_is_told_again_counts_once() -> None:
    model = RunModel()
    for _ in range(3):
        model.fold(processes(1.0, 5.0))
    assert len(model.samples.of_rank("TP0")) == 1


def test_a_time_without_a_watch_is_a_hole() -> None:
    model = RunModel()
    model.fold(gpus(1.0, 5.0))
    model.fold(processes(1.0, 5.0))
    model.samples.interrupted(3.2)
    model.fold(gpus(4.2, 6.0))
    assert utilisation(model, 0) == (5.0, None, None, None, 6.0)
    assert [sample is None for sample in model.samples.of_rank("TP0")] == [False, True, True, True]
