"""Which network NCCL took on each node, where it says so (``NCCL_DEBUG=INFO``), and whether the nodes differ. Pure.

Nodes that took different ones do not reach each other, or one drags the other down to sockets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launchmon_agent.model import RunModel

MARK = "net"
"""Row of ``sglang/marks.table`` that reads NCCL's lines."""

_DEVICE = re.compile(r"\[\d+\]\s*([^\s:;\[\]]+)")
"""``[0]mlx5_0:1/IB [1]mlx5_1:1/IB``, ``[0]eth0:10.0.0.1<0>``: the names; addresses differ from node to node anyway."""


def network_of(model: RunModel) -> str | None:
    """``IB over mlx5_0, mlx5_1``, ``Socket over eth0``; None where NCCL has not said it."""
    chosen, devices = None, {}
    for mark in model.marks(MARK):
        chosen = mark.values.get("network", chosen)
        if "transport" in mark.values:
            devices[mark.values["transport"]] = _DEVICE.findall(mark.values.get("devices", ""))
    transport = chosen or next(iter(devices), None)
    if transport is None:
        return None
    names = devices.get(transport, [])
    return f"{transport} over {', '.join(names)}" if names else transport


def differing(models: Mapping[int, RunModel]) -> dict[int, str]:
    """Node → its network, where at least two are known and they are not all the same; else nothing."""
    known = {node: network for node, model in models.items() if (network := network_of(model)) is not None}
    return known if len(set(known.values())) > 1 else {}
