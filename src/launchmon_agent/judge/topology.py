"""Whether the GPUs of a machine talk over NVLink, by the names of the products. Pure.

NVML tells it link by link, and not at all in many containers; the product settles it, but for those that exist with and
without (bridges). From NVIDIA's product pages; names are as NVML gives them.
"""

from __future__ import annotations

import re

from launchmon_agent.events import Gpus

_WITH = re.compile(r"SXM|HBM3|HGX|GB[23]00|B[23]00|H200(?! NVL)|H20\b|H800(?! PCIe)|A800-SXM")
_WITHOUT = re.compile(r"PCIe|RTX|GeForce|\bL40S?\b|\bL4\b|\bL20\b|\bA10G?\b|\bA16\b|\bT4\b|GB10\b")


def nvlink(gpus: Gpus | None) -> bool | None:
    """True: all of them, in one domain. False: none. None: it depends, or is not known."""
    names = {gpu.name for gpu in gpus.gpus} if gpus is not None else set()
    if not names or None in names:
        return None
    found = {_by_name(name or "") for name in names}
    return found.pop() if len(found) == 1 else None


def _by_name(name: str) -> bool | None:
    if _WITHOUT.search(name):
        return False
    return True if _WITH.search(name) else None
