"""Waiting for a condition, with a deadline: for tests with real processes."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 15) -> None:
    """Return once ``condition`` holds; fail the test when it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the awaited condition did not come about"
        time.sleep(0.01)
