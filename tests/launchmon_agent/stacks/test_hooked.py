"""When the answer of a process that carries the launch hook is whole."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from launchmon_agent.runs.handle import Handle
from launchmon_agent.stacks import hooked

MAIN = 0x7F02
HEADER = b"launchmon-hook\n"
OTHER_THREAD = b"Thread 0x0000000000007f01 (most recent call first):\n"
MAIN_THREAD = b"Thread 0x0000000000007f02 (most recent call first):\n"
LAST = b'  File "a.py", line 1 in run\n'


class Here:
    def is_gone(self) -> bool:
        return False


def waited(path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[int, bytes], blocked_until: int = 0) -> bytes:
    """``parts``: what the process adds, by the look before which it does; its handler runs until ``blocked_until``."""
    path.write_bytes(HEADER)
    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        with path.open("ab") as file:
            file.write(parts.get(looks, b""))

    monkeypatch.setattr(hooked.time, "sleep", sleep)
    monkeypatch.setattr(hooked, "_signal_in", lambda _pid, _mask: looks < blocked_until)
    return hooked._wait(1, str(path), len(HEADER), MAIN, cast(Handle, Here()), 60)


@pytest.mark.parametrize(
    ("parts", "blocked_until"),
    [
        ({1: OTHER_THREAD, 30: MAIN_THREAD + LAST}, 0),  # it stood still before its main thread's turn
        ({1: OTHER_THREAD + MAIN_THREAD, 30: LAST}, 31),  # and in the midst of it
    ],
)
def test_a_process_that_stands_still_in_its_dump_is_waited_for(
    parts: dict[int, bytes], blocked_until: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waited(tmp_path / "1.txt", monkeypatch, parts, blocked_until) == OTHER_THREAD + MAIN_THREAD + LAST


def test_without_a_main_thread_in_it_what_has_come_is_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(tmp_path / "1.txt", monkeypatch, {1: OTHER_THREAD + LAST}) == OTHER_THREAD + LAST
