"""What the agent's zip holds."""

from __future__ import annotations

import io
import zipfile

import pytest

from launchmon.connect.bundle import PLANTED, agent_zip


@pytest.mark.parametrize("compiled", [True, False])
def test_the_launch_hook_is_there_as_source(compiled: bool) -> None:
    with zipfile.ZipFile(io.BytesIO(agent_zip(compiled=compiled, deflated=True))) as bundle:
        assert b"faulthandler" in bundle.read(PLANTED)
        assert compiled == ("launchmon_agent/serve.pyc" in bundle.namelist())
