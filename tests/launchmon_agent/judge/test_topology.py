from __future__ import annotations

import pytest

from launchmon_agent.events import Gpu, Gpus
from launchmon_agent.judge.topology import nvlink


def gpus(*names: str | None) -> Gpus:
    return Gpus(0.0, gpus=tuple(Gpu(number, name=name) for number, name in enumerate(names)))


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("NVIDIA H200", True),
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA B200", True),
        ("NVIDIA GB200", True),
        ("NVIDIA H20", True),
        ("NVIDIA H100 PCIe", False),
        ("NVIDIA A100 80GB PCIe", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", False),
        ("NVIDIA GeForce RTX 4090", False),
        ("NVIDIA L40S", False),
        ("NVIDIA L4", False),
        ("NVIDIA A10G", False),
        ("NVIDIA GB10", False),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA A40", None),
        ("Something new", None),
    ],
)
def test_by_product(name: str, wanted: bool | None) -> None:
    assert nvlink(gpus(name, name)) is wanted


def test_a_mixture_or_nothing_is_not_known() -> None:
    assert nvlink(gpus("NVIDIA H200", "NVIDIA L4")) is None
    assert nvlink(gpus("NVIDIA H200", None)) is None
    assert nvlink(gpus()) is None
    assert nvlink(None) is None
