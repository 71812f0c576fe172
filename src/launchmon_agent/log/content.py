"""The bytes of one open log, and where its lines begin and end. Read only, by position, in bounded pieces.

A line ends with a newline. A log can also hold gigabytes without one (a progress bar that only ever uses carriage
returns, a hole left by a truncation under a writer that does not append), and nothing here may read that in search of
an end. So the file is also seen as blocks of :data:`BLOCK` bytes, and wherever a whole block has no newline the line is
broken at the block's end. The breaks depend on nothing but the bytes, so every reader finds the same lines.
"""

from __future__ import annotations

import contextlib
import os

PIECE = 256 * 1024
"""Bytes read at once while looking for newlines."""

BLOCK = 32 * 1024 * 1024
"""See above. Lines shorter than this are never broken."""


class Content:
    """An open regular file. It owns the descriptor and closes it when the last reader lets go.

    A reader that keeps a ``Content`` keeps its offsets valid, whatever happens at the path meanwhile. ``generation`` is
    the number that offsets into it belong to.
    """

    def __init__(self, descriptor: int | None, generation: int = 0) -> None:
        self._descriptor = descriptor
        self.generation = generation
        self.device: int | None = None
        self.inode: int | None = None
        self.floor = 0  # where the data begins: after the hole at its start, if it has one
        if descriptor is not None:
            status = os.fstat(descriptor)
            self.device, self.inode = status.st_dev, status.st_ino
            self.floor = _data_start(descriptor)

    @classmethod
    def nothing(cls, generation: int = 0) -> Content:
        """For a log that does not exist (yet)."""
        return cls(None, generation)

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def __bool__(self) -> bool:
        return self._descriptor is not None

    def fileno(self) -> int:
        if self._descriptor is None:
            raise ValueError("there is no open log")
        return self._descriptor

    def status(self) -> os.stat_result | None:
        """None: there is no file, or the file system lost it."""
        if self._descriptor is None:
            return None
        try:
            return os.fstat(self._descriptor)
        except OSError:
            return None

    def size(self) -> int:
        """Bytes in the file now; it only shrinks by a truncation."""
        status = self.status()
        return 0 if status is None else status.st_size

    def read_at(self, offset: int, count: int) -> bytes:
        """Up to ``count`` bytes from ``offset``; fewer at the end, none where there is nothing or reading fails."""
        if self._descriptor is None or offset < 0 or count <= 0:
            return b""
        pieces: list[bytes] = []
        try:
            while count > 0:
                piece = os.pread(self._descriptor, count, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset += len(piece)
                count -= len(piece)
        except OSError:
            pass
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def line_start(self, offset: int) -> int:
        """Where the line that holds the byte at ``offset`` begins."""
        if offset <= self.floor:
            return self.floor
        block = offset // BLOCK * BLOCK
        newline = self._last_newline(max(self.floor, block), offset)
        if newline is None and block > self.floor:
            newline = self._last_newline(max(self.floor, block - BLOCK), block)
            if newline is None and block - BLOCK >= self.floor:
                return block
        return self.floor if newline is None else newline + 1

    def line_end(self, start: int, size: int) -> int:
        """Where the line that begins at ``start`` ends, its newline included: at the next line, or ``size``."""
        block = start // BLOCK * BLOCK
        # A line that begins inside a block begins after a newline in it, or at the floor: that block breaks no line.
        limit = block + BLOCK if start == block else block + 2 * BLOCK
        newline = self._first_newline(start, min(limit, size))
        return min(limit, size) if newline is None else newline + 1

    def _last_newline(self, start: int, end: int) -> int | None:
        while end > start:
            low = max(start, end - PIECE)
            at = self.read_at(low, end - low).rfind(b"\n")
            if at >= 0:
                return low + at
            end = low
        return None

    def _first_newline(self, start: int, end: int) -> int | None:
        while start < end:
            piece = self.read_at(start, min(PIECE, end - start))
            at = piece.find(b"\n")
            if at >= 0:
                return start + at
            if not piece:
                return None
            start += len(piece)
        return None


def _data_start(descriptor: int) -> int:
    """The first offset that is not in a hole; 0 where the file system cannot say."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except (OSError, AttributeError):  # ENXIO: nothing but hole; EINVAL: not supported; no SEEK_DATA: not Linux
        return 0
