"""Passes over the log of a serving run without reading its lines. Pure.

A busy server writes a ``Decode batch`` line per rank and second and an access line per request, gigabytes in the end;
the few lines that matter then all contain one of the literals in the ``serving`` column of the data tables. Searching a
block for a literal costs a hundredth of reading its lines. The literals were chosen for that: single characters that no
``Decode batch``, ``Prefill batch`` or access line contains are found at memory speed.
"""

from __future__ import annotations

from collections.abc import Iterable

TAIL = 64 * 1024
"""Bytes kept of what was passed over: enough to know the last line of each rank that still writes."""


class Skipper:
    """Finds the next line that must be read, and keeps the end of what was passed over."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        self._literals = tuple(literals)
        self._next: dict[bytes, int] = {}  # literal → where it comes next in the block; len(block) when it does not
        self.tail = b""
        self.tail_at = 0  # offset of the tail in the log, bytes

    def begin(self) -> None:
        """A new block: positions found in the one before mean nothing."""
        self._next.clear()

    def next_line(self, block: bytes, start: int, end: int) -> int:
        """Where the next line that must be read begins, at or after ``start``; ``end`` when there is none before it."""
        hit = end
        for literal in self._literals:
            at = self._next.get(literal, -1)
            if at < start:
                at = block.find(literal, start)
                self._next[literal] = at = len(block) if at < 0 else at
            hit = min(hit, at)
        if hit >= end:
            return end
        return max(start, block.rfind(b"\n", start, hit) + 1, block.rfind(b"\r", start, hit) + 1)

    def passed(self, block: bytes, start: int, end: int, offset: int) -> None:
        """Note that ``block[start:end]``, whole lines that begin at ``offset`` in the log, were not read."""
        if end - start >= TAIL:
            self.tail, self.tail_at = block[end - TAIL : end], offset + end - start - TAIL
            self._drop_cut_line()
            return
        if not self.tail:
            self.tail_at = offset
        self.tail += block[start:end]
        if len(self.tail) > 2 * TAIL:
            self.tail_at += len(self.tail) - TAIL
            self.tail = self.tail[-TAIL:]
            self._drop_cut_line()

    def take(self) -> tuple[int, bytes]:
        """The kept lines and where they begin, once: they are forgotten here."""
        tail, self.tail = self.tail, b""
        return self.tail_at, tail

    def _drop_cut_line(self) -> None:
        whole = self.tail.find(b"\n") + 1
        self.tail_at += whole
        self.tail = self.tail[whole:]
