"""The simulated GPUs as the ranks use them: a small shared file with one slot per GPU.

A rank writes there what it does with its GPU; :mod:`.driver` reads all slots and reports them as NVML would.
Ranks import this module, so it imports little.
"""

from __future__ import annotations

import mmap
import os
import struct

VARIABLE = "LAUNCHMON_SIMULATED_GPUS"
"""Environment variable of the launcher: where the driver reports the GPUs. See :mod:`.driver` for the format."""

DIRECTORY_PREFIX = "launchmon-demo-"
"""Of the private temporary directories of the demo; what has this prefix, the demo removes when it ends."""

GB = 1 << 30

_SLOT = struct.Struct("<qqdd")


class Slots:
    """One record per GPU: ``(pid, bytes, SM activity, memory activity)``, activities 0…1.

    Each record has one writer, the rank on that GPU. A reader may see a record half written; the next second mends it.
    """

    def __init__(self, directory: str, count: int) -> None:
        """The file is made when it is not there."""
        size = max(mmap.PAGESIZE, count * _SLOT.size)
        descriptor = os.open(os.path.join(directory, "gpu-slots"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size < size:
                os.truncate(descriptor, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self.count = count

    def write(self, index: int, memory: int, activity: float, memory_activity: float) -> None:
        """For the calling process."""
        _SLOT.pack_into(self._map, index * _SLOT.size, os.getpid(), memory, activity, memory_activity)

    def read(self, index: int) -> tuple[int, int, float, float]:
        pid, memory, activity, memory_activity = _SLOT.unpack_from(self._map, index * _SLOT.size)
        return pid, memory, activity, memory_activity


class Gpu:
    """One rank's GPU. Memory in GB of 2**30 bytes, as SGLang's log counts."""

    def __init__(self, slots: Slots, index: int, memory_gb: float) -> None:
        self._slots = slots
        self._index = index
        self._total = memory_gb
        self._used = 0.0
        self._activity = (0.0, 0.0)

    @property
    def free_gb(self) -> float:
        return self._total - self._used

    def take(self, gb: float) -> None:
        self._used += gb
        self._write()

    def work(self, activity: float = 0.0, memory_activity: float = 0.0) -> None:
        """How busy the GPU is from now on, 0…1; nothing: idle."""
        self._activity = (activity, memory_activity)
        self._write()

    def _write(self) -> None:
        self._slots.write(self._index, int(self._used * GB), *self._activity)
