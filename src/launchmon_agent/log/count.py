"""Counting newlines faster than Python can: the bytes go from the page cache through a pipe into ``wc -l``.

Measured on a cached file of 2 GB with 15 million lines, two cores: ``wc -l FILE`` 0.25 s; spliced into ``wc -l`` in
segments of 64 MiB 0.35 s (16 MiB: 0.5 s), outside the interpreter lock; ``bytearray.count`` 1.1 s, holding the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from typing import IO, cast

from launchmon_agent.log.content import PIECE, Content

PIPE = 1024 * 1024
"""Wanted size of the pipe; also the most that an ordinary user may have. The default of 64 KiB takes twice as long."""

F_SETPIPE_SZ = 1031
"""Linux; named in :mod:`fcntl` from Python 3.10 where the C library has it."""


class Counter:
    """Counts the newlines of a contiguous range that is handed over in parts. Use one for each range."""

    def add(self, content: Content, start: int, end: int) -> int:
        """Count ``start`` … ``end``; returns where it came to, ``end`` unless the file ended or could not be read."""
        raise NotImplementedError

    def finish(self) -> int:
        """The count. Raises :class:`CountLost` where it cannot be known."""
        raise NotImplementedError

    def close(self) -> None:
        """Give up."""


class CountLost(Exception):
    """The count is lost; count again, in another way."""


class PythonCounter(Counter):
    def __init__(self) -> None:
        self._count = 0

    def add(self, content: Content, start: int, end: int) -> int:
        while start < end:
            piece = content.read_at(start, min(PIECE, end - start))
            if not piece:
                break
            self._count += piece.count(b"\n")
            start += len(piece)
        return start

    def finish(self) -> int:
        return self._count


class WcCounter(Counter):
    """A ``wc -l`` child. It ends by itself when this process does: its input ends."""

    def __init__(self, wc: str) -> None:
        try:
            self._child = subprocess.Popen(
                [wc, "-l"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={"LC_ALL": "C"},
            )
        except OSError as error:
            raise CountLost(str(error)) from None
        self._pipe = cast(IO[bytes], self._child.stdin).fileno()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._pipe, F_SETPIPE_SZ, PIPE)

    def add(self, content: Content, start: int, end: int) -> int:
        try:
            while start < end:
                moved = os.splice(content.fileno(), self._pipe, min(PIPE, end - start), offset_src=start)
                if not moved:
                    break
                start += moved
        except OSError as error:
            raise CountLost(str(error)) from None
        return start

    def finish(self) -> int:
        try:
            out, _ = self._child.communicate()
            return int(out)
        except (OSError, ValueError) as error:
            raise CountLost(str(error)) from None
        finally:
            self.close()

    def close(self) -> None:
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()


def find_wc() -> str | None:
    """The ``wc`` to count with; None where there is none, or this system cannot splice into it."""
    return shutil.which("wc") if hasattr(os, "splice") else None
