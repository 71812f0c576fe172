"""A clock in the hands of a test: time passes when the test says so, awake or asleep."""

from __future__ import annotations

import asyncio

STEP_S = 0.25


class FakeClock:
    """See :class:`launchmon.link.clock.Clock`."""

    def __init__(self) -> None:
        self._awake = 1000.0
        self._asleep = 1_764_000_000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def wall(self) -> float:
        return self._awake + self._asleep

    def monotonic(self) -> float:
        return self._awake

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._awake + seconds, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Awake, in small steps, so that whoever wakes in between can go to sleep again."""
        end = self._awake + seconds
        while self._awake < end:
            self._awake = min(end, self._awake + STEP_S)
            for sleeper in tuple(self._sleepers):
                if sleeper[0] <= self._awake:
                    self._sleepers.remove(sleeper)
                    if not sleeper[1].done():
                        sleeper[1].set_result(None)
            await settle()

    async def suspend(self, seconds: float) -> None:
        """The machine sleeps, then runs for a second."""
        self._asleep += seconds
        await self.advance(1.25)


async def settle() -> None:
    """Let everything run that can run now."""
    for _ in range(40):
        await asyncio.sleep(0)
