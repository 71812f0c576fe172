"""What a login shell gives: its environment, in spite of what its startup files do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from launchmon_agent import login
from tests.support.waiting import until

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="bash is not installed")


def environ(home: Path, shell: str = BASH) -> dict[str, str]:
    return {"HOME": str(home), "SHELL": shell, "PATH": os.environ["PATH"], "OF_THE_AGENT": "1"}


@needs_bash
def test_the_startup_files_count_and_their_noise_does_not(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text(
        "echo 'Welcome! begin-0 X=1'; echo to stderr >&2\n"
        "export PATH=/opt/cuda/bin:$PATH MULTI=$'two\\nlines' EMPTY=\n"
        "read -t 60 answer; trap 'echo goodbye X=2' EXIT\n"
    )
    found = login.ask(environ(tmp_path))
    assert found.environ["PATH"].startswith("/opt/cuda/bin:")
    assert (found.environ["MULTI"], found.environ["EMPTY"]) == ("two\nlines", "")
    assert found.environ["OF_THE_AGENT"] == "1"
    assert not {"X", "_", "SHLVL", "PWD"} & set(found.environ)
    assert (found.home, found.said) == (str(tmp_path), f"environment: that of a login shell ({BASH})")


@needs_bash
def test_one_that_hangs_is_left_and_nothing_of_it_stays(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    (tmp_path / ".bash_profile").write_text(f"sleep 600 & echo $! > {number}; wait\n")
    found = login.ask(environ(tmp_path), limit_s=4.0)
    assert found.environ == environ(tmp_path)
    assert found.said.endswith("did not get through its startup files within 4 s")
    until(lambda: not Path(f"/proc/{number.read_text().strip()}").exists())


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("/no/such/shell", "could not be started (No such file or directory)"),
        (shutil.which("false") or "/bin/false", "did not answer (status 1)"),
    ],
)
def test_where_there_is_none_the_agents_own_is_used_and_that_is_said(tmp_path: Path, shell: str, said: str) -> None:
    found = login.ask(environ(tmp_path, shell))
    assert found.environ == environ(tmp_path, shell)
    assert found.said == f"environment: the agent's own, since the login shell {shell} {said}"


@needs_bash
@pytest.mark.parametrize(("cwd", "place"), [(None, ""), ("work", "work"), ("~/x", "x"), ("/srv", None)])
def test_the_directory_is_the_home_of_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: str | None, place: str | None
) -> None:
    for name, value in environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    plan = login.prepared({"argv": ["x"], "login": True, "cwd": cwd})
    assert os.path.normpath(plan["cwd"]) == (cwd if place is None else os.path.normpath(tmp_path / place))
    assert plan["environ"]["OF_THE_AGENT"] == "1" and plan["notes"]


def test_without_a_login_nothing_is_asked() -> None:
    plan = {"argv": ["x"], "cwd": "."}
    assert login.prepared(plan) is plan
