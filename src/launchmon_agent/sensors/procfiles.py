"""The files of one process under ``/proc`` that are read each second, by one call each.

Opening, reading to the end and closing costs several times what the kernel needs to write one of these files, so they
are opened once. A descriptor of ``/proc/PID/…`` names one process for ever: it refers to the process, not to its
number, and once that has been waited for, every read and every look into the open directory fails with ESRCH or ENOENT
(``get_proc_task`` in the kernel's fs/proc/internal.h), whoever is given the number next.
"""

from __future__ import annotations

import os

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.proc import Memory, Stat

_ENOUGH = 16 * 1024
"""Bytes: each of these files is one record, which the kernel gives whole where there is room for it. ``status`` of a
user in a thousand groups on a large machine takes 8 KiB."""


class ProcessFiles:
    """Of the process that has the number ``pid`` when one is first read. For one thread at a time."""

    def __init__(self, pid: int, *, keep: bool) -> None:
        """``keep`` the descriptors: six at most. Without, each reading opens its file anew, by the number."""
        self._path = f"{proc.PROC}/{pid}"
        self._keep = keep
        self._folder: int | None = None
        self._open: dict[str, int] = {}

    def close(self) -> None:
        """Let go of the descriptors."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def __del__(self) -> None:
        # Whoever ends the watching cannot close them: a thread may be in the middle of a reading then.
        self.close()

    def stat(self) -> Stat | None:
        """None when the process is gone."""
        data = self._read("stat")
        return proc.parse_stat(data) if data else None

    def memory(self) -> Memory | None:
        """As :func:`proc.memory`."""
        data = self._read("status")
        return proc.parse_memory(data) if data else None

    def io_bytes(self) -> tuple[int, int] | None:
        """As :func:`proc.io_bytes`."""
        return proc.parse_io(self._read("io"))

    def wchan(self) -> str | None:
        """As :func:`proc.wchan`."""
        return proc.parse_wchan(self._read("wchan"))

    def syscall(self) -> int | None:
        """As :func:`proc.syscall`."""
        return proc.parse_syscall(self._read("syscall"))

    def _read(self, name: str) -> bytes | None:
        if not self._keep:
            return proc.read(f"{self._path}/{name}")
        try:
            descriptor = self._open.get(name)
            if descriptor is None:
                descriptor = self._open[name] = self._descriptor(name)
            data = os.pread(descriptor, _ENOUGH, 0)
        except OSError:
            return None
        return data if len(data) < _ENOUGH else proc.read(f"{self._path}/{name}")

    def _descriptor(self, name: str) -> int:
        if self._folder is None:
            self._folder = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
