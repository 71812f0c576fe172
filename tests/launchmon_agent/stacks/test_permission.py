"""Why stacks cannot be read: one cause and one remedy for each constellation."""

from __future__ import annotations

import dataclasses
import os

import pytest

from launchmon_agent.stacks import permission
from launchmon_agent.stacks.permission import Facts, cause

USER = Facts(pid=7, can_open=False, our_uid=1000, uid=1000, same_user_namespace=True, dumpable=True, exceeds=False)
ROOT = dataclasses.replace(USER, our_uid=0, uid=0)


@pytest.mark.parametrize(
    "facts, because, remedy",
    [
        (dataclasses.replace(USER, scope=1), "ptrace_scope is 1", "sudo sysctl kernel.yama.ptrace_scope=0"),
        (
            dataclasses.replace(USER, scope=1, container="docker"),
            "ptrace_scope is 1",
            "docker run --cap-add SYS_PTRACE",
        ),
        (dataclasses.replace(USER, scope=2), "ptrace_scope is 2", "sudo launchmon dump --pid 7"),
        (dataclasses.replace(USER, scope=2, container="kubernetes"), "ptrace_scope is 2", "securityContext"),
        (dataclasses.replace(USER, scope=3), "ptrace_scope is 3", "launchmon relaunch"),
        (dataclasses.replace(ROOT, scope=3, capability=True), "ptrace_scope is 3", "launchmon relaunch"),
        (dataclasses.replace(USER, uid=0), "another user (uid 0, we are 1000)", "sudo launchmon dump --pid 7"),
        (dataclasses.replace(USER, uid=0, no_new_privileges=True, container="podman"), "another user", "podman run"),
        (dataclasses.replace(USER, uid=65534, same_user_namespace=False), "user namespace", "nsenter"),
        (ROOT, "root without the capability SYS_PTRACE", "outside the container"),
        (dataclasses.replace(ROOT, container="docker"), "without the capability", "docker run --cap-add SYS_PTRACE"),
        (dataclasses.replace(ROOT, container="kubernetes"), "without the capability", "securityContext"),
        (dataclasses.replace(ROOT, capability=True, same_user_namespace=False), "user namespace", "nsenter"),
        (dataclasses.replace(USER, exceeds=True), "capabilities that we have not", "sudo launchmon dump --pid 7"),
        (dataclasses.replace(USER, dumpable=False), "unreadable", "sudo launchmon dump --pid 7"),
        (USER, "security module", "sudo launchmon dump --pid 7"),
    ],
)
def test_one_cause_and_one_command(facts: Facts, because: str, remedy: str) -> None:
    refused = cause(facts)
    assert refused is not None
    assert "process 7" in refused.what
    assert because in refused.cause
    assert remedy in refused.try_
    assert "\n" not in refused.cause + refused.try_


def test_what_can_be_opened_is_allowed() -> None:
    assert cause(dataclasses.replace(USER, can_open=True, scope=1)) is None


@pytest.mark.parametrize("container, remedy", [(None, "docker run"), ("podman", "podman run"), ("kubernetes", "pod")])
def test_a_refusal_behind_an_open_door_is_a_filter(container: str | None, remedy: str) -> None:
    refused = cause(dataclasses.replace(USER, can_open=True, container=container), read_refused=True)
    assert refused is not None and "seccomp" in refused.cause and remedy in refused.try_


def test_our_own_process_may_be_read() -> None:
    facts = permission.facts(os.getpid())
    assert facts is not None
    assert facts.can_open and facts.uid == facts.our_uid == os.geteuid()
    assert permission.check(os.getpid()) is None


def test_of_a_process_that_is_gone_nothing_is_said() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert permission.facts(pid) is None
    assert permission.check(pid) is None


def test_under_yama_a_child_makes_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper is the parent of the server, so Yama lets it read; what it starts is not."""
    asked: list[int] = []
    monkeypatch.setattr(permission, "_scope", lambda: 1)
    monkeypatch.setattr(permission, "_can_open", lambda _pid: True)
    monkeypatch.setattr(permission, "_child_can_open", lambda pid: bool(asked.append(pid)))
    monkeypatch.setattr(permission, "_status", lambda _pid: {"CapEff": "0", "CapPrm": "0", "Uid": "1 1 1 1"})
    facts = permission.facts(os.getpid())
    assert facts is not None and not facts.can_open
    assert asked == [os.getpid()]


def test_a_child_that_tries_tells_the_truth() -> None:
    assert permission._child_can_open(os.getpid()) is (os.geteuid() == 0 or permission._scope() in (None, 0))
