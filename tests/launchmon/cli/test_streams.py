"""Standard streams that are closed, and a disk that is full."""

from __future__ import annotations

import errno
import io
import os
import sys

import pytest

from launchmon.cli.harmless import HarmlessText
from launchmon.cli.streams import open_closed_streams
from launchmon_agent.errors import Refused


def test_a_verb_without_standard_streams_reads_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
        monkeypatch.setattr(sys, f"__{name}__", None)
    open_closed_streams()
    opened = sys.stdin, sys.stdout, sys.stderr
    try:
        assert sys.stdin.read() == "" and not sys.stdin.isatty()
        assert [stream.write("x") for stream in opened[1:]] == [1, 1]
        assert sys.stdout is sys.__stdout__
    finally:
        for stream in opened:
            stream.close()


def test_streams_that_are_open_stay_as_they_are() -> None:
    before = sys.stdin, sys.stdout, sys.stderr
    open_closed_streams()
    assert (sys.stdin, sys.stdout, sys.stderr) == before


class Disk(io.RawIOBase):
    error: int | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        return len(data)  # type: ignore[arg-type]


def test_what_does_not_fit_on_the_disk_is_refused() -> None:
    disk = Disk()
    stream = HarmlessText(io.BufferedWriter(disk), "utf-8")
    stream.write("x")
    disk.error = errno.ENOSPC
    with pytest.raises(Refused, match="could not be written") as refused:
        stream.flush()
    assert refused.value.cause == "No space left on device" and refused.value.try_
    disk.error = errno.EPIPE  # whoever read it has seen enough: click ends quietly then
    with pytest.raises(BrokenPipeError):
        stream.flush()
    disk.error = None
