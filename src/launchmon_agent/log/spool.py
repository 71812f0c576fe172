"""Private files for output that reaches launchmon by a pipe: a log of its own, which is then read like any other."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

from launchmon_agent.errors import Refused


class Spool:
    """A directory that only this user can enter, with the file ``log`` in it. Both go with :meth:`remove`."""

    def __init__(self, parent: str | None = None) -> None:
        """``parent`` None: where temporary files belong. Raises :class:`Refused`."""
        try:
            self.directory = tempfile.mkdtemp(prefix="launchmon-log-", dir=parent)  # mode 0700
            self.path = self.file("log")
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise Refused(
                f"no place to keep the log's copy: {error.strerror}",
                f"{parent or tempfile.gettempdir()} is full, read-only or not ours",
                "df -h /tmp; or set TMPDIR to a directory with room",
            ) from None

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def append(self, data: bytes) -> None:
        """Write all of ``data`` at the end. Raises OSError (disk full)."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.directory)
