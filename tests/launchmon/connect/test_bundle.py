"""What the agent's zip holds."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest

import launchmon_agent
from launchmon.connect.bundle import AS_SOURCE, agent_zip

PACKAGE = Path(launchmon_agent.__path__[0])


@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_run_as_source_is_there_as_source(compiled: bool) -> None:
    with zipfile.ZipFile(io.BytesIO(agent_zip(compiled=compiled, deflated=True))) as bundle:
        for name in AS_SOURCE:
            assert bundle.read(name) == (PACKAGE.parent / name).read_bytes()
        assert compiled == ("launchmon_agent/serve.pyc" in bundle.namelist())


def test_whatever_the_agent_reads_of_its_own_sources_is_run_as_source() -> None:
    named = {
        found
        for path in PACKAGE.rglob("*.py")
        for found in re.findall(r"get_data\([^)]*\"([\w/]+\.py)\"", path.read_text())
    }
    assert named and all(any(name.endswith(f"/{one}") for name in AS_SOURCE) for one in named)
    assert len(named) == len(AS_SOURCE)
