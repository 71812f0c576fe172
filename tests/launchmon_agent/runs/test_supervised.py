"""Servers that are not ours to relaunch."""

from __future__ import annotations

import os

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.runs import supervised
from launchmon_agent.runs.supervised import refuse_supervised, unit_of

ARGV = ("python", "-m", "sglang.launch_server", "--api-key", "k")


@pytest.mark.parametrize(
    ("group", "unit"),
    [
        ("0::/system.slice/sglang.service", "sglang.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/sglang.service", "sglang.service"),
        ("12:memory:/system.slice/llm@kimi.service\n0::/", "llm@kimi.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-terminal.scope", None),
        ("0::/system.slice/ssh.service", None),
        ("0::/user.slice/user-1000.slice/user@1000.service", None),
        ("0::/", None),
        ("", None),
    ],
)
def test_the_unit_of_a_process(group: str, unit: str | None) -> None:
    assert unit_of(group) == unit


def of(monkeypatch: pytest.MonkeyPatch, pid: int, theirs: str, ours: str = "0::/") -> None:
    monkeypatch.setattr(supervised, "_groups", lambda one: theirs if one == pid else ours)


def test_a_service_is_refused_with_systemd_s_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getppid()
    of(monkeypatch, pid, "0::/user.slice/user-1.slice/user@1.service/app.slice/sglang.service")
    with pytest.raises(Refused, match=r"belongs to sglang\.service") as caught:
        refuse_supervised(pid, ARGV)
    assert caught.value.try_ == (
        "systemctl --user edit --full sglang.service && systemctl --user restart sglang.service"
    )


def test_a_service_that_launchmon_runs_in_too_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getppid()
    of(monkeypatch, pid, "0::/system.slice/jobs.service", ours="0::/system.slice/jobs.service")
    refuse_supervised(pid, ARGV)


def test_a_container_is_refused_by_its_name_and_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getppid()
    of(monkeypatch, pid, f"0::/system.slice/docker-{'ab12' * 16}.scope")
    monkeypatch.setattr(supervised.proc, "namespace", lambda one, kind: f"mnt:[{one}]")
    with pytest.raises(Refused, match="runs in a container") as caught:
        refuse_supervised(pid, ARGV)
    assert "docker rm -f ab12ab12ab12" in caught.value.try_
    assert "--api-key '•••'" in caught.value.try_


def test_the_first_process_of_a_container_is_refused_from_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised.proc, "namespace", lambda one, kind: "mnt:[1]")
    with pytest.raises(Refused, match="first process of its container"):
        refuse_supervised(1, ARGV)
