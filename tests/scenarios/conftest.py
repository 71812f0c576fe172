"""What the scenarios share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import psutil
import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.runs import directory
from tests.support.client import agent


@pytest.fixture
async def ended() -> AsyncIterator[None]:
    """Whatever a test leaves running of its launched runs is killed through launchmon itself."""
    yield
    for place, file in directory.runs():
        if file.server is not None and psutil.pid_exists(file.server.pid):
            async with agent() as session:
                with contextlib.suppress(Refused):
                    await session.attach(run=place.id)
                    await session.kill(force=True)
