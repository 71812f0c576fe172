"""The last samples of each GPU and each rank, for the small curves on the screen. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from launchmon_agent.events import Gpu, Gpus, Process, Processes

HISTORY = 60
"""Samples of each: a minute, at one a second."""

Key = tuple["int | None", "int | str"]
"""Node, and index of the GPU or tag of the rank."""

_T = TypeVar("_T", Gpu, Process)


class _Recent(Generic[_T]):
    """The newest samples by key, oldest first; ``None`` stands for a second in which nobody looked."""

    def __init__(self) -> None:
        self._kept: dict[Key, deque[_T | None]] = {}

    def take(self, key: Key, sample: _T) -> None:
        self._kept.setdefault(key, deque(maxlen=HISTORY)).append(sample)

    def skip(self, count: int) -> None:
        for samples in self._kept.values():
            samples.extend([None] * count)

    def of(self, key: Key) -> Sequence[_T | None]:
        return tuple(self._kept.get(key, ()))


class Samples:
    def __init__(self) -> None:
        self._gpus: _Recent[Gpu] = _Recent()
        self._ranks: _Recent[Process] = _Recent()

    def take_gpus(self, event: Gpus) -> None:
        for gpu in event.gpus:
            self._gpus.take((gpu.node, gpu.index), gpu)

    def take_processes(self, event: Processes) -> None:
        for process in event.processes:
            if process.rank is not None:
                self._ranks.take((process.node, process.rank), process)

    def interrupted(self, seconds: float) -> None:
        """Nobody watched for so long: the curves get a hole, as long as it was, and no line across it."""
        count = min(HISTORY, max(1, round(seconds)))
        self._gpus.skip(count)
        self._ranks.skip(count)

    def of_gpu(self, index: int, node: int | None = None) -> Sequence[Gpu | None]:
        return self._gpus.of((node, index))

    def of_rank(self, tag: str, node: int | None = None) -> Sequence[Process | None]:
        return self._ranks.of((node, tag))
