"""What a rank's children are, and the data files behind it."""

from __future__ import annotations

import re

import pytest

from launchmon_agent.sensors.kinds import kind_of
from launchmon_agent.sensors.syscalls import syscall_name
from launchmon_agent.sensors.tables import rows


@pytest.mark.parametrize(
    "argv, kind",
    [
        (["/usr/local/cuda/bin/nvcc", "-c", "x.cu"], "nvcc"),
        (["/usr/local/cuda/nvvm/bin/cicc", "--c++17"], "cicc"),
        (["ptxas", "-arch=sm_90a"], "ptxas"),
        (["/v/triton/backends/nvidia/bin/ptxas-blackwell"], "ptxas"),
        (["cudafe++"], "cudafe++"),
        (["ninja", "-v", "-j", "8"], "ninja"),
        (["/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "-quiet"], "cc1plus"),
        (["/usr/bin/x86_64-linux-gnu-g++-12", "-O3"], "g++"),
        (["c++"], "g++"),
        (["gcc"], "g++"),
        (["/opt/rocm/bin/hipcc"], "hipcc"),
        (["/opt/rocm/llvm/bin/clang-17"], "clang"),
        (["/usr/bin/ld.gold"], "ld"),
        (["collect2"], "ld"),
        (["as", "--64"], "as"),
        (["x86_64-conda-linux-gnu-as"], "as"),
        (["/v/bin/python", "/v/torch/_inductor/compile_worker/__main__.py", "--workers=32"], "inductor"),
        (["/v/bin/python", "-m", "torch._inductor.compile_worker"], "inductor"),
        (["/v/bin/python3", "/v/bin/huggingface-cli", "download", "m"], "download"),
        (["curl", "-O", "https://x"], "download"),
        (["git-lfs", "filter-process"], "download"),
        (["/v/bin/py-spy", "dump", "--pid", "1"], "py-spy"),
        (["/v/bin/python3", "-c", "print()"], "python"),
        (["/v/bin/python3", "-X", "dev", "/opt/tool.py"], "tool.py"),
        (["nvidia-smi", "-L"], "nvidia-smi"),
        (["/bin/sh", "-c", "nvcc x.cu"], None),
        (["bash"], None),
        (["ccache", "g++"], None),
        (["sleep 100"], "sleep"),
    ],
)
def test_kinds(argv: list[str], kind: str | None) -> None:
    assert kind_of(argv) == kind


def test_a_child_without_arguments_goes_by_its_comm() -> None:
    assert kind_of([], "ptxas") == "ptxas"
    assert kind_of([], "") is None


@pytest.mark.parametrize("row", rows("children.table", 3), ids=lambda row: f"{row[0]} {row[2]}")
def test_each_row_of_children(row: list[str]) -> None:
    kind, on, expression = row
    assert on in ("name", "path")
    assert not re.compile(expression).search(""), "would fit everything"
    assert kind == "-" or len(kind) <= 12


@pytest.mark.parametrize("row", rows("syscalls.table", 3), ids=lambda row: row[0])
def test_each_row_of_system_calls(row: list[str]) -> None:
    name, *numbers = row
    for machine, number in zip(("x86_64", "aarch64"), numbers, strict=True):
        if number != "-":
            assert syscall_name(int(number), machine) == name


@pytest.mark.parametrize("column", [1, 2])
def test_no_number_stands_for_two_system_calls(column: int) -> None:
    numbers = [row[column] for row in rows("syscalls.table", 3) if row[column] != "-"]
    assert len(numbers) == len(set(numbers))


def test_system_calls_of_other_machines_are_not_known() -> None:
    assert syscall_name(202, "x86_64") == "futex"
    assert syscall_name(202, "riscv64") is None
    assert syscall_name(99999, "x86_64") is None
    assert syscall_name(None) is None


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        rows("no-such.table", 2)
