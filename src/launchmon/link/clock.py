"""The time by which a link is kept: tests hold a clock of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol

TICK_S = 1.0
"""How often it is looked whether the machine was asleep."""

JUMP_S = 3.0
"""The wall clock runs on while a machine sleeps, the monotonic one does not (Linux CLOCK_MONOTONIC, clock_gettime(2);
macOS mach_absolute_time). A gap as wide is a sleep, or a clock that was set: either way it is worth a look at the link.
"""


class Clock(Protocol):
    def wall(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that this machine was awake."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def awoken(clock: Clock) -> None:
    """Returns when the machine has slept."""
    ahead = clock.wall() - clock.monotonic()
    while True:
        await clock.sleep(TICK_S)
        now = clock.wall() - clock.monotonic()
        if now - ahead > JUMP_S:
            return
        ahead = now


async def first(*coroutines: Coroutine[Any, Any, Any]) -> int:
    """Place of the one that ends first, whose error is raised; the others are cancelled and have ended."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        place = next(place for place, task in enumerate(tasks) if task.done())
        await tasks[place]
        return place
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
