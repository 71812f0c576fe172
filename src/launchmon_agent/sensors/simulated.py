"""Simulated GPUs: a small JSON file that the demo keeps writing, in place of a driver.

``{"gpus": [{"index": 0, "name": "…", "memory_used": …, "processes": [{"pid": …, "memory": …}]}]}``, fields as in
:class:`~launchmon_agent.events.Gpu`.
"""

from __future__ import annotations

import json

from launchmon_agent.codec import Malformed, from_json
from launchmon_agent.events import Gpu, Gpus
from launchmon_agent.sensors import proc

_LIMIT = 1 << 20


class SimulatedGpus:
    def __init__(self, path: str) -> None:
        self._path = path

    def sample(self, now: float) -> Gpus:
        """``source`` is always "simulated"; a file that is missing or torn gives ``error``."""
        data = proc.read(self._path, _LIMIT)
        if data is None:
            return _none(now, f"the simulated GPUs' file cannot be read: {self._path}")
        try:
            body = json.loads(data)
            listed = body["gpus"] if isinstance(body, dict) else None
            if not isinstance(listed, list):
                return _none(now, "the simulated GPUs' file has no list of gpus")
            return Gpus(at=now, source="simulated", gpus=tuple(from_json(Gpu, one) for one in listed))
        except (ValueError, KeyError, RecursionError) as error:  # Malformed is a ValueError
            detail = str(error) if isinstance(error, Malformed) else "it is not whole"
            return _none(now, f"the simulated GPUs' file makes no sense: {detail}")

    def close(self) -> None:
        """Nothing is held open."""


def _none(now: float, error: str) -> Gpus:
    return Gpus(at=now, source="simulated", error=error)
