"""What the fault suite shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fault_rig import FaultRig, fault_rig


@pytest.fixture
def rig() -> Iterator[FaultRig]:
    with fault_rig() as one:
        yield one
