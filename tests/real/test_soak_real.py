"""The short form of the soak: a minute of serving under load. ``python -m tests.bench.soak`` is the long one."""

from __future__ import annotations

import pytest

from tests.bench.soak import soak
from tests.real.rig import Rig

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]


async def test_a_minute_under_load_leaves_memory_flat_and_says_nothing_false(rig: Rig) -> None:
    seen = await soak(rig, 60)
    assert seen.problems() == [], seen.table()
