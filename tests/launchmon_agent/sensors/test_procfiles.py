"""The kept files of a process, on real processes: what they tell, and that it is of that process alone."""

from __future__ import annotations

import mmap
import os
import subprocess
from collections.abc import Iterator

import pytest

from launchmon_agent.sensors import proc
from launchmon_agent.sensors.procfiles import ProcessFiles
from tests.support.prefixes import in_a_pid_namespace, needs_root
from tests.support.waiting import until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    until(lambda: proc.wchan(child.pid) or proc.syscall(child.pid))
    yield child
    child.kill()
    child.wait()


def open_descriptors() -> set[str]:
    """Of this process, into /proc."""
    return {link for link in (proc.fd_links(os.getpid()) or {}).values() if link.startswith("/proc/")}


@pytest.mark.parametrize("keep", [True, False])
def test_each_reading_is_new_and_the_same_as_by_the_number(sleeper: subprocess.Popen[bytes], keep: bool) -> None:
    files = ProcessFiles(sleeper.pid, keep=keep)
    for _ in range(2):
        assert files.stat() == proc.stat(sleeper.pid)
        assert files.memory() == proc.memory(sleeper.pid)
        assert files.io_bytes() == proc.io_bytes(sleeper.pid)
        assert files.wchan() == proc.wchan(sleeper.pid)
        assert files.syscall() == proc.syscall(sleeper.pid)
    ours = ProcessFiles(os.getpid(), keep=keep)
    before = ours.memory()
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE) as held:  # not of a heap that has freed some before
        held.write(os.urandom(1 << 20) * 64)
        after = ours.memory()
        assert before is not None and after is not None and before.anon is not None and after.anon is not None
        assert after.anon - before.anon > len(held) / 2


def test_a_zombie_is_told_and_one_that_was_waited_for_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    files = ProcessFiles(sleeper.pid, keep=True)
    files.stat()
    files.memory()
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    row = files.stat()
    assert row is not None and row.dead
    sleeper.wait()
    assert files.stat() is None
    assert files.memory() is None
    assert files.io_bytes() is None, "not opened before"


REUSE = """
import json, subprocess
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.procfiles import ProcessFiles

first = subprocess.Popen(["sleep", "60"])
files = ProcessFiles(first.pid, keep=True)
opened = files.stat() is not None
first.kill()
first.wait()
with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
    last.write(str(first.pid - 1))
second = subprocess.Popen(["sleep", "60"])
print(json.dumps({
    "same number": second.pid == first.pid, "opened": opened, "by the number": proc.stat(first.pid) is not None,
    "of one that was opened": files.stat(), "of one that was not": files.memory(),
}))
second.kill()
second.wait()
"""


@needs_root
def test_another_process_with_the_same_number_is_never_told() -> None:
    # In a namespace of its own: numbers that come again for all processes of this machine make others' tests signal
    # strangers.
    assert in_a_pid_namespace(REUSE) == {
        "same number": True,
        "opened": True,
        "by the number": True,
        "of one that was opened": None,
        "of one that was not": None,
    }


def test_descriptors_are_let_go(sleeper: subprocess.Popen[bytes]) -> None:
    before = open_descriptors()
    files = ProcessFiles(sleeper.pid, keep=True)
    files.stat()
    files.wchan()
    assert len(open_descriptors() - before) == 3
    files.close()
    assert open_descriptors() == before
    assert files.stat() is not None, "it opens again"
    del files
    assert open_descriptors() == before
    ProcessFiles(sleeper.pid, keep=False).stat()
    assert open_descriptors() == before
