"""A process that ends with its pipe, whatever it is doing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launchmon_agent import lifetime
from launchmon_agent.log import sources
from tests.support.importing import SRC

BUSY = {
    "the event loop turns": "import asyncio; asyncio.run(asyncio.sleep(3600))",
    "a thread that Python waits for": "threading.Thread(target=time.sleep, args=(3600,)).start()",
    "Python code that never pauses": "x = 0\nwhile True: x += 1",
    "bytes that nobody reads": "os.read(0, 1); time.sleep(3600)",
}


def started(code: str) -> subprocess.Popen[bytes]:
    head = "import os, sys, threading, time\nfrom launchmon_agent import lifetime\nlifetime.end_with(0)\n"
    return subprocess.Popen(
        [sys.executable, "-c", f"{head}print('up', flush=True)\n{code}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=SRC,
    )


@pytest.mark.parametrize("code", BUSY.values(), ids=BUSY)
def test_it_ends_when_stdin_is_closed(code: str) -> None:
    process = started(code)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.stdin.write(b"unread")
    process.stdin.close()
    assert process.wait(timeout=60) == 0


def test_it_ends_when_told_so_although_stdin_stays_open() -> None:
    process = started("lifetime.is_ending()\ntime.sleep(3600)")
    assert process.wait(timeout=60) == 0
    assert process.stdin is not None
    process.stdin.close()


def test_what_was_begun_is_finished_first(tmp_path: Path) -> None:
    done, go = tmp_path / "done", tmp_path / "go"
    code = (
        "with lifetime.finishing():\n"
        "    print('begun', flush=True)\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        f"    open({str(done)!r}, 'w').close()\n"
        "time.sleep(3600)"
    )
    process = started(code)
    assert process.stdin is not None and process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == [b"up\n", b"begun\n"]
    process.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=4)
    go.touch()
    assert process.wait(timeout=60) == 0
    assert done.exists()


def test_a_log_command_that_does_not_end_leaves_time_to_remove_the_copy_of_its_output() -> None:
    assert sources.ENDING_S < lifetime.GRACE_S
