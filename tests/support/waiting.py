"""Waiting for a condition, with a deadline: for tests with real processes."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 15) -> None:
    """Return once ``condition`` holds; fail the test when it does not within ``seconds``.

    Asked often at first; then seldom enough that the asking takes no time from what is awaited.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, "the awaited condition did not come about"
        time.sleep(0.01 if waited < 1 else 0.05)
