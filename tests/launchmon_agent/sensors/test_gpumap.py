"""Which GPU a rank uses: by pid, by nested pid, by configuration."""

from __future__ import annotations

import pytest

from launchmon_agent.events import Gpu, GpuProcess
from launchmon_agent.sensors.gpumap import Numbering, RankGpu, RankPlace, map_ranks


def gpus(*pids: int, count: int = 8) -> list[Gpu]:
    """GPU i has the process ``pids[i]`` with (i + 1) GB."""
    return [
        Gpu(
            index,
            uuid=f"GPU-{index}aaa-bbbb",
            processes=(GpuProcess(pids[index], (index + 1) << 30),) if index < len(pids) else (),
        )
        for index in range(count)
    ]


def test_by_pid_whatever_the_order() -> None:
    ranks = [RankPlace(100, 0), RankPlace(101, 1)]
    assert map_ranks(ranks, gpus(101, 100), Numbering(), host_pids=True) == {
        100: RankGpu(1, 2 << 30, "pid"),
        101: RankGpu(0, 1 << 30, "pid"),
    }


def test_in_a_container_a_pid_that_contradicts_the_configuration_is_chance() -> None:
    ranks = [RankPlace(100, 0), RankPlace(101, 1)]
    found = map_ranks(ranks, gpus(900, 901, 902, 100), Numbering(), host_pids=False)
    assert found == {100: RankGpu(0, 1 << 30, "order"), 101: RankGpu(1, 2 << 30, "order")}


def test_in_a_container_a_pid_that_agrees_is_believed() -> None:
    assert map_ranks([RankPlace(100, 0)], gpus(100), Numbering(), host_pids=False)[100].by == "pid"
    assert map_ranks([RankPlace(100, None)], gpus(900, 100), Numbering(), host_pids=False)[100].index == 1


def test_by_the_pid_in_a_nested_namespace_unless_two_have_it() -> None:
    alone = [RankPlace(5100, 0, (5100, 17))]
    assert map_ranks(alone, gpus(0, 17), Numbering(), host_pids=True) == {5100: RankGpu(1, 2 << 30, "nspid")}
    twins = [RankPlace(5100, 0, (5100, 17)), RankPlace(6100, 1, (6100, 17))]
    assert {gpu.by for gpu in map_ranks(twins, gpus(0, 17), Numbering(), host_pids=True).values()} == {"order"}


def test_memory_by_order_is_known_only_of_a_sole_process() -> None:
    crowded = [Gpu(0, processes=(GpuProcess(1, 5), GpuProcess(2, 6))), Gpu(1)]
    found = map_ranks([RankPlace(100, 0), RankPlace(101, 1)], crowded, Numbering(), host_pids=True)
    assert found == {100: RankGpu(0, None, "order"), 101: RankGpu(1, None, "order")}


@pytest.mark.parametrize(
    "argv, visible, expected",
    [
        ([], None, [0, 1]),
        ([], "4,5,6,7", [4, 5]),
        ([], "GPU-3aaa,GPU-2aaa-bbbb", [3, 2]),
        ([], "MIG-0-1-2,1", [None, 1]),
        ([], "", [None, None]),
        ([], "-1", [None, None]),
        ([], "6", [6, None]),
        ([], " 6 , 7 ", [6, 7]),
        (["--base-gpu-id", "4"], None, [4, 5]),
        (["--base-gpu-id=4", "--gpu-id-step", "2"], None, [4, 6]),
        (["--base-gpu-id", "2"], "1,3,5,7", [5, 7]),
        (["--base-gpu-id", "7"], None, [7, None]),
        (["--base-gpu-id", "what"], None, [0, 1]),
        (["--base-gpu-id"], None, [0, 1]),
        (["--device", "cpu"], None, [None, None]),
        (["--device", "cuda"], None, [0, 1]),
    ],
)
def test_by_configuration(argv: list[str], visible: str | None, expected: list[int | None]) -> None:
    environ = None if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    numbering = Numbering.of(["python", "-m", "sglang.launch_server", *argv], environ)
    found = map_ranks([RankPlace(100, 0), RankPlace(101, 1)], gpus(), numbering, host_pids=True)
    indexes = [found[pid].index if pid in found else None for pid in (100, 101)]
    assert indexes == expected


def test_a_rank_without_a_place_and_without_a_pid_is_left_out() -> None:
    assert map_ranks([RankPlace(100)], gpus(), Numbering(), host_pids=True) == {}
