"""The verbs as a person or a script calls them: stdout, stderr, exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from launchmon.demo.scenarios import demo_command
from tests.support.ports import free_port
from tests.support.waiting import until

SOURCE = Path(__file__).resolve().parents[2] / "src"
SPEED = 8.0


def launchmon(*args: str, timeout: float = 90, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from launchmon.cli import main; main()", *args],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def start(scenario: str, *flags: str) -> str:
    """A run launched through the verb; its id."""
    argv, env = demo_command(scenario, free_port(), speed=SPEED)
    changes = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    done = launchmon("launch", *changes, "--detach", "--", *argv, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def seed() -> Iterator[str]:
    """A launch that dead-locks, shared by all tests here: none of them may end it."""
    run = start("seed")
    yield run
    launchmon("kill", run, "--yes", "--force")


def test_wait_says_ready_stopped_and_stuck_by_its_status(seed: str, tmp_path: Path) -> None:
    assert launchmon("wait", seed, "--timeout", "0.1").returncode == 5
    healthy, heard = start("healthy"), tmp_path / "heard"
    done = launchmon("wait", healthy, "--json", "--on-verdict", f'echo "$LAUNCHMON_VERDICT $LAUNCHMON_RUN" >> {heard}')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"]["kind"] == "ready"
    until(lambda: heard.exists() and f"ready {healthy}" in heard.read_text())
    assert launchmon("kill", healthy, "--yes").returncode == 0
    assert launchmon("wait", healthy).returncode == 4  # stopped: it will not get ready

    done = launchmon("wait", seed, "--json")
    assert done.returncode == 3, done.stdout
    found = json.loads(done.stdout)
    assert found["verdict"]["kind"] == "deadlock-silent"
    assert sorted(found["verdict"]["blames"]) == [f"TP{n}" for n in range(8)]


def test_wait_says_crashed() -> None:
    run = start("seed")
    pid = next(row for row in json.loads(launchmon("runs", "--json").stdout) if row["id"] == run)["pid"]
    os.kill(pid, signal.SIGKILL)
    done = launchmon("wait", run)
    assert done.returncode == 4, done.stdout
    assert "SIGKILL" in done.stdout


def test_wait_knows_no_such_run() -> None:
    done = launchmon("wait", "no-such-run", "--pid", "1")
    assert done.returncode == 6
    assert done.stdout == ""
    assert "launchmon:" in done.stderr


def test_diagnose_prints_one_object_with_stable_keys(seed: str) -> None:
    done = launchmon("diagnose", seed, "--for", "2", "--json")
    found = json.loads(done.stdout)
    assert found["schema"] == 1
    keys = {"schema", "at", "target", "run", "phase", "phases", "ranks", "gpus", "clocks", "verdict"}
    assert keys <= set(found)
    assert {"id", "argv", "pid", "engine", "engine_version", "nnodes", "tp", "pp", "dp", "port", "log"} <= set(
        found["run"]
    )
    assert [rank["rank"] for rank in found["ranks"]] == [f"TP{n}" for n in range(8)]
    assert {"kind", "confidence", "summary", "blames", "evidence", "ruled_out", "unknown", "next"} <= set(
        found["verdict"]
    )
    assert len(found["gpus"]) == 8 and found["target"]["gpu_source"] == "simulated"
    assert launchmon("diagnose", seed, "--for", "1").stdout.count("SIMULATED") == 1


def test_dump_merges_the_ranks(seed: str) -> None:
    assert launchmon("wait", seed).returncode == 3
    done = launchmon("dump", seed, "--repeat", "2", "--every", "1")
    assert done.returncode == 0, done.stderr
    assert "TP0-7" in done.stdout
    assert "init_memory_pool" in done.stdout
    assert "unchanged" in done.stdout
    objects = [json.loads(line) for line in launchmon("dump", seed, "--json").stdout.splitlines()]
    assert [one["kind"] for one in objects] == ["stacks"]


def test_runs_lists_what_was_launched(seed: str) -> None:
    rows: list[dict[str, Any]] = json.loads(launchmon("runs", "--json").stdout)
    row = next(row for row in rows if row["id"] == seed)
    assert row["state"] == "running" and row["tp"] == 8 and row["simulated"]
    assert seed in launchmon("runs").stdout


def test_kill_asks_before_anything_dies(seed: str) -> None:
    done = launchmon("kill", seed)
    assert done.returncode == 1
    assert "nobody to ask" in done.stderr
    rows = json.loads(launchmon("runs", "--json").stdout)
    assert next(row for row in rows if row["id"] == seed)["state"] == "running"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("launch", "--detach", "--", "/nowhere/python"), "/nowhere/python"),
        (("launch", "--detach", "--env", "NOEQUALS", "--", "true"), "NOEQUALS"),
        (("diagnose", "--pid", "999999999"), "server"),
        (("attach", "--pid", "1"), "terminal"),
        ((), "terminal"),
        (("diagnose", "no-such-run"), "no-such-run"),
        (("demo", "no-such-scenario"), "no-such-scenario"),
        (("kill", "--tmux", "%99999", "--yes"), "server"),
    ],
)
def test_a_mistake_is_three_lines_on_stderr_and_no_traceback(args: tuple[str, ...], words: str) -> None:
    done = launchmon(*args)
    assert done.returncode == 1, done
    assert words in done.stderr and done.stderr.startswith("launchmon: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_version_and_unknown_verbs() -> None:
    assert launchmon("--version").stdout.startswith("launchmon ")
    assert "launchmon demo seed" in launchmon("--help").stdout
    assert launchmon("--nonsense").returncode == 2
    assert launchmon("launch").returncode == 2


def test_completion_script_is_printed() -> None:
    done = launchmon(_LAUNCHMON_COMPLETE="bash_source")
    assert "complete" in done.stdout


def test_a_detached_server_has_another_session_and_no_terminal(seed: str) -> None:
    rows = json.loads(launchmon("runs", "--json").stdout)
    pid = next(row for row in rows if row["id"] == seed)["pid"]
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert psutil.Process(pid).terminal() is None
