"""``launchmon doctor`` against real agents."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from launchmon_agent.doctor import ORDER


def doctor(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from launchmon.cli import main; main()", "doctor", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, stdin=subprocess.DEVNULL)


def test_this_machine_and_one_behind_a_command_are_examined_by_their_agents() -> None:
    done = doctor("--via", "env", "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    (target,) = found["targets"]
    assert target["name"] == "env"
    assert [one["id"] for one in target["capabilities"]] == [*ORDER, "clock"]
    states = {one["state"] for one in [*found["client"], *target["capabilities"]]}
    assert done.returncode == (1 if "broken" in states else 2 if "less" in states else 0)
    assert done.stderr == ""


def test_a_target_that_cannot_be_reached_is_a_finding_beside_the_others() -> None:
    done = doctor("--via", "false", "--via", "env")
    assert done.returncode == 1
    assert "BROKEN" in done.stdout and "agent" in done.stdout
    assert "env, as the agent there sees it" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_server_that_is_not_there_is_said() -> None:
    done = doctor("--pid", str(2**22 - 1))
    assert done.returncode == 1
    assert str(2**22 - 1) in done.stderr and done.stdout == ""
