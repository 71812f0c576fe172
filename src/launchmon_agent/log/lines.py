"""Raw lines of a log, forwards and backwards from any line start, a block at a time; long ones are never read whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from launchmon_agent.log.content import Content

HEAD = 16 * 1024
"""Bytes of a line that are looked at: as many as the longest text shown can have, and what is searched."""

BLOCK = 64 * 1024
"""Bytes read at once. A block of nothing but newlines still makes a bearable number of lines."""


class RawLine(NamedTuple):
    """A line as it lies in the file: bytes ``start`` … ``end``, the newline included where there is one."""

    start: int
    end: int
    head: bytes  # the first bytes, at most HEAD, without the newline
    tail: bytes  # the last bytes of a longer line, at most HEAD; may overlap the head
    ended: bool  # by a newline

    @property
    def length(self) -> int:
        """Bytes without the newline."""
        return self.end - self.start - self.ended

    @property
    def shown(self) -> tuple[bytes, int]:
        """What a terminal would show last, and how many bytes of it are missing at its end.

        A line can hold many refreshes of a progress bar, each begun by a carriage return: the last that is not blank
        counts. In a line longer than :data:`HEAD` it is looked for in the head and the tail only.
        """
        if not self.tail:
            return _last_refresh(self.head), 0
        if b"\r" in self.tail.rstrip(b"\r \t"):
            return _last_refresh(self.tail), 0
        visible = self.head.rpartition(b"\r")[2] or self.head
        return visible, self.length - len(self.head)

    @property
    def searched(self) -> bytes:
        """The text a search or filter looks at: the head, all refreshes in it, and what is shown."""
        if not self.tail:
            return self.head
        shown, missing = self.shown
        return self.head if missing else self.head + b"\r" + shown


def _last_refresh(data: bytes) -> bytes:
    if b"\r" not in data:
        return data
    for part in reversed(data.split(b"\r")):
        if part and not part.isspace():
            return part
    return b""


class Block(NamedTuple):
    """Consecutive whole lines: ``start`` … ``end``. A line longer than :data:`BLOCK` is alone in its block."""

    start: int
    end: int
    data: bytes  # the bytes; of a long line its head and tail
    long: RawLine | None = None

    def lines(self) -> list[RawLine]:
        return _split(self.start, self.data) if self.long is None else [self.long]


def forward(content: Content, start: int, size: int) -> Iterator[Block]:
    """The lines from the line start ``start`` up to ``size``, the size of the file, in blocks.

    What is appended beyond ``size`` meanwhile is not seen; an unfinished last line is given as it is.
    """
    at = max(start, content.floor)
    while at < size:
        data = content.read_at(at, min(BLOCK, size - at))
        if not data:
            return
        whole = data.rfind(b"\n") + 1
        if whole == 0 and at + len(data) >= size:
            whole = len(data)
        if whole:
            block = Block(at, at + whole, data[:whole])
        else:
            block = _long(content, at, content.line_end(at, size))
        yield block
        at = block.end


def backward(content: Content, stop: int) -> Iterator[Block]:
    """The lines before the line start (or file end) ``stop``, last block first."""
    while stop > content.floor:
        low = max(content.floor, stop - BLOCK)
        data = content.read_at(low, stop - low)
        if len(data) < stop - low:
            return  # truncated meanwhile
        if low == content.floor:
            yield Block(low, stop, data)
            return
        newline = data.find(b"\n", 0, -1)  # the last byte is the newline of the last line
        if newline >= 0:
            low += newline + 1
            yield Block(low, stop, data[newline + 1 :])
        else:
            low = content.line_start(stop - 1)
            yield _long(content, low, stop)
        stop = low


def _split(start: int, data: bytes) -> list[RawLine]:
    lines = []
    ended = data.endswith(b"\n")
    parts = data.split(b"\n")
    if ended:
        parts.pop()
    last = len(parts) - 1
    for number, part in enumerate(parts):
        has_newline = ended or number < last
        end = start + len(part) + has_newline
        if len(part) <= HEAD:
            lines.append(RawLine(start, end, part, b"", has_newline))
        else:
            lines.append(RawLine(start, end, part[:HEAD], part[-HEAD:], has_newline))
        start = end
    return lines


def _long(content: Content, start: int, end: int) -> Block:
    """The block of one line of any length; only its head and tail are read."""
    ended = content.read_at(end - 1, 1) == b"\n"
    length = end - start - ended
    head = content.read_at(start, min(HEAD, length))
    tail = content.read_at(end - ended - HEAD, HEAD) if length > HEAD else b""
    line = RawLine(start, end, head, tail, ended)
    return Block(start, end, line.searched, line)
