"""A log where it lies: one path whose file comes late, grows, is truncated, rotated, replaced or deleted.

:class:`LogFile` opens for reading only and touches nothing but regular files: opening a FIFO would steal what is
written to it. Each file that appears at the path, and each truncation, is a new *generation*, in which offsets start
again.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import zlib

from launchmon_agent.errors import Refused
from launchmon_agent.log.content import Content

FINGERPRINT = 256
"""Bytes kept of the head and of the end of what was seen, to know a file that was truncated and has grown again."""

PATIENCE_S = 5.0
"""How long an old file may go on growing after another has taken its path, before the new one is read."""


class LogFile:
    """The log at ``path``. :attr:`content` is what can be read now, :attr:`problem` why it is nothing or ended.

    Raises :class:`Refused` for a path that can never be a log (directory, FIFO, device, not readable). A file that does
    not exist yet is no error.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.content = Content.nothing()
        self.problem: str | None = None
        self._head = b""
        self._tail = b""
        self._tail_end = 0
        self._replaced_at: float | None = None
        self._drained_size = -1
        try:
            self._open(generation=0)
        except FileNotFoundError:
            self.problem = f"{path} does not exist (yet); it is read as soon as it does"
        except OSError as error:
            raise _refusal(path, error) from None

    @property
    def generation(self) -> int:
        return self.content.generation

    @property
    def identity(self) -> str | None:
        """Names what is being read, whoever reads it: the inode, and a digest of the first line. None: nothing yet.

        A file that was truncated and written anew begins otherwise, if only by the time in that line.
        """
        newline = self._head.find(b"\n")
        if not self.content or (newline < 0 and len(self._head) < FINGERPRINT):
            return None
        first = self._head[: newline + 1] if newline >= 0 else self._head
        return f"{self.content.device:x}-{self.content.inode:x}-{zlib.crc32(first):08x}"

    def refresh(self, consumed: int, now: float) -> bool:
        """Look at the path again. True when a new generation has begun.

        ``consumed`` is how far the caller has read: a file that was renamed or deleted is read to its end before the
        one that took its path is opened, so that nothing is lost.
        """
        lost = bool(self.content) and self.content.status() is None  # a stale NFS handle: open it anew
        if self.content and not lost and self._was_rewritten():
            self._begin_again()
            return True
        try:
            there = os.stat(self.path)
        except OSError as error:
            self._replaced_at = None
            self.problem = _absent(self.path, error, reading=bool(self.content))
            return False
        if not lost and (there.st_dev, there.st_ino) == (self.content.device, self.content.inode):
            self._replaced_at = None
            self.problem = None
            return False
        if self.content and not lost and not self._finished(consumed, now):
            return False
        try:
            self._open(self.generation + 1 if self.content else self.generation)
        except OSError as error:
            self.problem = _absent(self.path, error, reading=bool(self.content))
            return False
        return True

    def _open(self, generation: int) -> None:
        """Open what is at the path as a new generation. Raises OSError and leaves everything as it was."""
        if not stat.S_ISREG(os.stat(self.path).st_mode):  # before the open, which would already act on a FIFO or device
            raise _NotAFileError(self.path)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _NotAFileError(self.path)
        self._adopt(Content(descriptor, generation))

    def _begin_again(self) -> None:
        """The same file with other bytes: a new generation on the same descriptor."""
        self._adopt(Content(os.dup(self.content.fileno()), self.generation + 1))

    def _adopt(self, content: Content) -> None:
        self.content = content
        self.problem = None
        self._head = self._tail = b""
        self._tail_end = 0
        self._replaced_at = None
        self._drained_size = -1
        self._was_rewritten()  # takes the first fingerprints

    def _was_rewritten(self) -> bool:
        """Whether bytes seen before are gone or others; if not, remember those at the present end."""
        size = self.content.size()
        if size < self._tail_end:
            return True
        if self.content.read_at(0, len(self._head)) != self._head:
            return True
        if self.content.read_at(self._tail_end - len(self._tail), len(self._tail)) != self._tail:
            return True
        if size == self._tail_end:
            return False
        if len(self._head) < FINGERPRINT:
            self._head = self.content.read_at(0, min(FINGERPRINT, size))
        self._tail = self.content.read_at(max(0, size - FINGERPRINT), min(FINGERPRINT, size))
        self._tail_end = size
        return False

    def _finished(self, consumed: int, now: float) -> bool:
        """Whether the old file, whose path another has taken, is read to an end that no longer moves."""
        if self._replaced_at is None:
            self._replaced_at = now
        size = self.content.size()
        if consumed < size:
            return False
        still = size == self._drained_size
        self._drained_size = size
        return still or now - self._replaced_at > PATIENCE_S


class _NotAFileError(OSError):
    """The path names something that is not a regular file."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", path)


def _absent(path: str, error: OSError, *, reading: bool) -> str:
    """Why the path gives no file just now, in words."""
    if isinstance(error, FileNotFoundError):
        if reading:
            return f"{path} was deleted or moved; its last file is still open here and is read on"
        return f"{path} does not exist (yet); it is read as soon as it does"
    kept = "; the file that was there is read on" if reading else ""
    return f"{path} cannot be read: {_reason(error)}{kept}"


def _reason(error: OSError) -> str:
    return str(error.strerror or error).lower()


def _refusal(path: str, error: OSError) -> Refused:
    quoted = shlex.quote(path)
    if isinstance(error, _NotAFileError):
        kind = _kind(path)
        if kind == "a pipe":
            return Refused(
                f"the log {path} is a pipe, not a file",
                "what is read from a pipe is gone for its other readers, so launchmon does not open it",
                "name the file that the pipe's reader writes (with tee: its argument), or use --log-command",
            )
        return Refused(
            f"the log {path} is {kind}, not a file",
            "--log takes the file that the server's output goes to",
            f"ls -l {quoted}",
        )
    if isinstance(error, PermissionError):
        return Refused(
            f"the log {path} is not readable",
            f"user {os.geteuid()} lacks the permission to read it or to enter its directory",
            f"ls -ld {quoted}; or use --log-command 'sudo tail -c +1 -F {quoted}'",
        )
    return Refused(f"the log {path} cannot be opened: {_reason(error)}", "", f"ls -ld {quoted}")


def _kind(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "something else"
    for test, name in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a terminal or device"),
        (stat.S_ISBLK, "a block device"),
    ):
        if test(mode):
            return name
    return "something else"
