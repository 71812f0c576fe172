"""How far a target's clock is from this machine's."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

TRIPS = 5
"""The quickest of so many round trips is the one that waited least on the way."""

WORTH_SAYING_S = 0.5


@dataclass(frozen=True)
class Offset:
    """``seconds``: to add to the target's times. Right to ``error`` either way: half of the round trip."""

    seconds: float = 0.0
    error: float = 0.0

    @property
    def correction(self) -> float:
        """What is corrected: nothing where the difference may be the way there and back."""
        return self.seconds if abs(self.seconds) > self.error else 0.0

    def words(self, who: str) -> str | None:
        """For people; None when it is too small to matter."""
        if abs(self.correction) < WORTH_SAYING_S:
            return None
        way = "behind" if self.seconds > 0 else "ahead of"
        return (
            f"the clock of {who} is {abs(self.seconds):.1f} s {way} this machine's (± {self.error:.2f} s); "
            "its times are corrected"
        )


async def measure(remote: Callable[[], Awaitable[float]], clock: Callable[[], float] = time.time) -> Offset:
    """``remote``: asks the target for its time, in seconds since the epoch."""
    best: Offset | None = None
    for _ in range(TRIPS):
        asked = clock()
        theirs = await remote()
        answered = clock()
        error = max(0.0, answered - asked) / 2
        if best is None or error < best.error:
            best = Offset(asked + error - theirs, error)
    assert best is not None
    return best
