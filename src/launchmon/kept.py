"""The events of a run that nobody records where it is, kept by the client that watches it: to look back, to report."""

from __future__ import annotations

import zlib

from launchmon_agent.codec import encode
from launchmon_agent.events import Event
from launchmon_agent.runs.recording import SAMPLES
from launchmon_agent.runs.sampling import Sampling

BLOCK = 1 << 20
"""Bytes that are compressed together."""

CAP = 64 << 20
"""Bytes of all compressed blocks, beyond which the oldest lose their samples: many hours of a large run."""

SAMPLE_S = 0.9
"""Seconds between two samples of a kind that are kept, as in the recording of a launched run."""


class Kept:
    """Lines as they came, in order. Happenings are kept for ever."""

    def __init__(self, block: int = BLOCK, cap: int = CAP) -> None:
        self._block = block
        self._cap = cap
        self._packed: list[bytes] = []
        self._bare = 0  # of the oldest blocks, those that have no samples any more
        self._open: list[bytes] = []
        self._size = 0
        self._sampling = Sampling()

    def add(self, event: Event, line: bytes) -> None:
        """``line``: the event as it came, with its newline."""
        for waited in self._sampling.due(event.at, SAMPLE_S):
            self._append(encode(waited))
        if event.kind not in SAMPLES or self._sampling.take(event, SAMPLE_S):
            self._append(line)

    def lines(self) -> list[bytes]:
        whole = [line for block in self._packed for line in _unpacked(block)]
        return whole + self._open

    def _append(self, line: bytes) -> None:
        self._open.append(line)
        self._size += len(line)
        if self._size >= self._block:
            self._packed.append(zlib.compress(b"".join(self._open), 3))
            self._open, self._size = [], 0
            self._thin()

    def _thin(self) -> None:
        total = sum(map(len, self._packed))
        while total > self._cap and self._bare < len(self._packed):
            old = self._packed[self._bare]
            new = zlib.compress(b"".join(line for line in _unpacked(old) if not line.startswith(_SAMPLE)), 3)
            self._packed[self._bare] = new
            self._bare += 1
            total += len(new) - len(old)


_SAMPLE = tuple(b'{"kind":"%s",' % kind.encode("ascii") for kind in sorted(SAMPLES))
"""How lines with samples begin."""


def _unpacked(block: bytes) -> list[bytes]:
    return zlib.decompress(block).splitlines(keepends=True)
