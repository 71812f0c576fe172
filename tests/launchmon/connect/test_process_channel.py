"""A channel through a child process, at its end."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from launchmon.connect import process
from launchmon.connect.process import ProcessChannel


async def test_closed_twice_it_says_the_same_though_a_grandchild_holds_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ssh's ControlPersist does."""
    monkeypatch.setattr(process, "END_S", 0.2)
    channel = await ProcessChannel.open(["sh", "-c", "sleep 60 >/dev/null & echo $!"])
    grandchild = int(await channel.read())
    try:
        ending = await channel.close()
        assert await channel.close() == ending
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(grandchild, signal.SIGKILL)
