"""The genuine SGLang as a fixture. Its tests are marked ``real`` and skip, with a reason, where it is not installed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real import setup
from tests.real.rig import Rig


@pytest.fixture(scope="session")
def installation() -> Path:
    """Where SGLang is. ``LAUNCHMON_REQUIRE_REAL=1`` makes its absence an error, for CI."""
    where = setup.directory()
    if not setup.is_ready(where):
        why = f"SGLang {setup.SGLANG} is not installed in {where}; python tests/real/setup.py installs it"
        if os.environ.get("LAUNCHMON_REQUIRE_REAL"):
            pytest.fail(why)
        pytest.skip(why)
    return where


@pytest.fixture
def rig(installation: Path, tmp_path: Path) -> Iterator[Rig]:
    """One at a time on this machine, whatever number of workers runs the tests: a server takes all of two cores."""
    with (installation / "in-use").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rig = Rig(installation, tmp_path)
        try:
            yield rig
        finally:
            rig.end()
