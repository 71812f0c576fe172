"""Ranks that have lost their launcher, as real processes: who counts as one, and where it listens."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchmon_agent.events import Orphan
from launchmon_agent.sensors.orphans import KEEPER_COMM, leftovers, orphans
from tests.support import fake_servers
from tests.support.waiting import until

KEEPER = """
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None)
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
libc.prctl(36, 1, 0, 0, 0)
middle = os.fork()
if not middle:
    libc.prctl(15, b"python", 0, 0, 0)
    if not os.fork():
        import setproctitle
        listener = socket.create_server(("127.0.0.1", 0))
        setproctitle.setproctitle(sys.argv[2])
        print(os.getpid(), listener.getsockname()[1], flush=True)
        time.sleep(600)
    if sys.argv[3] == "dies":
        os._exit(0)
    time.sleep(600)
if sys.argv[3] == "dies":
    os.waitpid(middle, 0)
time.sleep(600)
"""


@contextmanager
def rank(keeper: str, title: str, parent: str) -> Iterator[tuple[int, int]]:
    """A process of that title, whose parent dies or lives; who adopts it is called ``keeper``. Its pid and port."""
    with fake_servers.session_of(
        sys.executable, "-c", KEEPER, keeper, title, parent, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pid, port = process.stdout.readline().split()
        yield int(pid), int(port)


def found(pid: int, before: float | None = None) -> Orphan | None:
    return next((one for one in orphans(before) if one.pid == pid), None)


def test_a_rank_whose_launcher_is_dead_is_an_orphan() -> None:
    with rank(KEEPER_COMM, "sglang::scheduler_TP3", "dies") as (pid, port):
        until(lambda: found(pid) is not None)
        orphan = found(pid)
        assert orphan is not None and (orphan.title, orphan.ports) == ("sglang::scheduler_TP3", (port,))


def test_what_is_left_of_this_very_launch_is_none_of_an_earlier_one() -> None:
    began = time.time() - 60
    with rank(KEEPER_COMM, "sglang::scheduler_TP3", "dies") as (pid, _):
        until(lambda: found(pid) is not None)
        assert pid not in {one.pid for one in leftovers(began, 0.0).orphans}
        assert pid in {one.pid for one in leftovers(time.time() + 60, 0.0).orphans}


@pytest.mark.parametrize(
    "keeper, title, parent",
    [
        (KEEPER_COMM, "sglang::scheduler_TP3", "lives"),
        ("bash", "sglang::scheduler_TP3", "dies"),
        (KEEPER_COMM, "sglang::router", "dies"),
    ],
    ids=["its parent lives", "somebody else's child", "no rank"],
)
def test_other_processes_are_none(keeper: str, title: str, parent: str) -> None:
    with rank(keeper, title, parent) as (pid, _):
        until(lambda: Path(f"/proc/{pid}/comm").read_text().startswith("sglang::"))
        assert found(pid) is None
