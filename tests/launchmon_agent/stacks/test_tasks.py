"""What the kernel tells of the threads of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchmon_agent.sensors import proc
from launchmon_agent.stacks import tasks

STATUS = "Name:\tpython\nSigQ:\t0/63512\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0000000000040000\n"
NONE, STOP = "0000000000000000", "0000000000040000"


@pytest.mark.parametrize(
    ("threads", "pending"),
    [
        ([(NONE, NONE)], False),
        ([(NONE, NONE), (STOP, NONE)], True),  # by ptrace, to one thread
        ([(NONE, STOP)], True),  # by kill, to the process
        ([("0000000000020000", "0000000000080000")], False),  # SIGCONT, SIGTSTP
        ([], False),
    ],
)
def test_a_stop_that_has_not_taken_effect_is_seen(
    threads: list[tuple[str, str]], pending: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "PROC", str(tmp_path))
    for number, (own, shared) in enumerate(threads, 7):
        folder = tmp_path / "7" / "task" / str(number)
        folder.mkdir(parents=True)
        (folder / "status").write_text(STATUS.format(own=own, shared=shared))
    assert tasks.stop_pending(7) == pending
