"""A client in a test: a session with a real agent over its pipe, and waiting for what it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from launchmon.connect import Nobody
from launchmon.connect.opening import open_pipe
from launchmon.connect.target import LOCAL, Target
from launchmon.session import Session

PATIENCE_S = 60.0


@asynccontextmanager
async def agent(target: Target = LOCAL) -> AsyncIterator[Session]:
    session = await Session.open(lambda: open_pipe(target, Nobody()))
    try:
        yield session
    finally:
        await session.close()


async def eventually(condition: Callable[[], Any], seconds: float = PATIENCE_S) -> None:
    """Wait until the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)


def verdict(session: Session) -> str | None:
    return session.model.verdict.verdict if session.model.verdict else None


def phases(session: Session) -> list[tuple[str, str, float, float | None]]:
    return [(span.phase, span.rank, span.begin, span.end) for span in session.model.phases.spans()]


async def whole_log(session: Session) -> list[tuple[int, str]]:
    """Each line with its offset."""
    lines: list[tuple[int, str]] = []
    at = 0
    while True:
        part = await session.window(at, 0, 500)
        lines += [(line.offset, line.text) for line in part.lines]
        if part.at_end:
            return lines
        at = part.end


async def assert_same_log(first: Session, second: Session) -> None:
    """Both give the whole log of a server that is up, which may be asked something between the two readings."""
    seen, later = await whole_log(first), await whole_log(second)
    assert any("fired up" in text for _, text in seen)
    assert later[: len(seen)] == seen
    assert all('"GET /' in text for _, text in later[len(seen) :])
