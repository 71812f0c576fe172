"""A channel through a child process, at its end."""

from __future__ import annotations

import asyncio
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
        assert channel._process._transport._closed  # type: ignore[attr-defined]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(grandchild, signal.SIGKILL)


async def test_one_that_stands_still_with_what_it_was_sent_is_left_with_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It and its grandchild are stopped: neither reads on, and both hold all pipes."""
    monkeypatch.setattr(process, "END_S", 0.2)
    channel = await ProcessChannel.open(["sh", "-c", "sleep 60 & echo $!; kill -STOP $! $$"])
    grandchild = int(await channel.read())
    try:
        channel.write(b"x" * 1_000_000)
        await asyncio.wait_for(channel.close(), 10)
        transport = channel._process._transport  # type: ignore[attr-defined]
        assert all(transport.get_pipe_transport(each).is_closing() for each in range(3))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(grandchild, signal.SIGKILL)
