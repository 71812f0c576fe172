"""Gives a client the recording of a launched run, in parts of bounded size."""

from __future__ import annotations

import base64
import threading
import zlib
from collections.abc import Iterator
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.recording import shareable_lines

PART = 1 << 20
"""Bytes of one part before it is compressed; one line more may be in it."""


class Sharing:
    """For one run. Parts are asked for one after the other; asking for another place begins anew."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._lines: Iterator[bytes] = iter(())
        self._given: int | None = None  # lines so far
        self._lock = threading.Lock()

    def part(self, start: int) -> dict[str, Any]:
        """The lines from number ``start`` (from 0) on. Blocking; for a thread. Raises :class:`Refused`.

        ``data`` is zlib in base64, ``next`` where to go on, None at the end.
        """
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            raise Refused("a part of a recording begins at a line", f"it was asked for {start!r}")
        with self._lock:
            if self._given != start:
                self._lines = shareable_lines(self._directory)
                for _ in range(start):
                    next(self._lines, None)
                self._given = start
            taken, size = [], 0
            for line in self._lines:
                taken.append(line)
                size += len(line)
                if size >= PART:
                    break
            self._given = start + len(taken)
            data = base64.b64encode(zlib.compress(b"".join(taken), 6)).decode("ascii")
            return {"data": data, "next": self._given if size >= PART else None}
