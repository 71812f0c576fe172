"""py-spy's answers, and where it is looked for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent.sglang.secrets import HIDDEN
from launchmon_agent.stacks import pyspy
from launchmon_agent.stacks.pyspy import Options, find, parse


def frame(name: str, **more: Any) -> dict[str, Any]:
    file = "/env/lib/python3.11/site-packages/own/a.py"
    base = {"name": name, "filename": file, "module": None, "short_filename": "a.py", "line": 3, "locals": None}
    return {**base, **more}


def thread(os_id: int, name: str | None, *frames: dict[str, Any], **more: Any) -> dict[str, Any]:
    base = {"pid": 7, "thread_id": 140, "thread_name": name, "os_thread_id": os_id, "active": False, "owns_gil": False}
    return {**base, "frames": list(frames), "process_info": None, **more}


def test_the_main_thread_comes_first_and_keeps_its_frames() -> None:
    data = json.dumps(
        [thread(9, "loader", frame("read")), thread(7, None, frame("inner"), frame("outer", line=0), active=True)]
    )
    main, other = parse(data.encode(), 7)
    assert (main.main, main.os_id, main.active, main.owns_gil) == (True, 7, True, False)
    assert [(item.function, item.line) for item in main.frames] == [("inner", 3), ("outer", None)]
    assert (other.main, other.name) == (False, "loader")


def test_the_main_thread_is_known_by_name_where_the_server_has_its_own_numbers() -> None:
    (only,) = parse(json.dumps([thread(1, "MainThread", frame("f"))]).encode(), 4711)
    assert only.main


def test_native_frames_are_those_with_a_module() -> None:
    data = json.dumps([thread(7, None, frame("poll", module="/lib/libc.so.6", filename="/lib/libc.so.6", line=0))])
    (native,) = parse(data.encode(), 7)[0].frames
    assert (native.function, native.file, native.native, native.line) == ("poll", "/lib/libc.so.6", True, None)


def test_locals_are_short_and_without_secrets() -> None:
    values = [
        {"name": "api_key", "repr": '"sk-1"'},
        {"name": "environ", "repr": "{'HF_TOKEN': 'abc'}"},
        {"name": "n", "repr": "4"},
        {"name": "long", "repr": "x" * 5000},
        {"name": "unknown", "repr": None},
    ]
    (only,) = parse(json.dumps([thread(7, None, frame("f", locals=values))]).encode(), 7)[0].frames
    assert only.locals["api_key"] == HIDDEN
    assert "abc" not in only.locals["environ"]
    assert only.locals["n"] == "4"
    assert len(only.locals["long"]) < 300
    assert only.locals["unknown"] == "?"


@pytest.mark.parametrize("data", [b"", b"garbage", b"{}", b"[1]", b'[{"frames": [{}]}]', b'[{"frames": 3}]', b"\xff"])
def test_what_is_no_answer_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse(data, 7)


def test_words_for_each_wish() -> None:
    assert Options().words() == []
    assert Options(native=True, locals=True).words() == ["--native", "--locals"]
    assert Options(native=True, nonblocking=True).words() == ["--nonblocking"]


@pytest.mark.parametrize(
    "complaint, reason",
    [
        ("Error: Failed to get stack traces\n\nCaused by:\n    0: a\n    1: b\n\nStack backtrace:\n   0: main\n", "b"),
        ("Permission Denied: Try running again with elevated permissions", "Permission Denied: Try running"),
        ("", "it failed and said nothing"),
    ],
)
def test_the_reason_is_taken_from_what_it_prints(complaint: str, reason: str) -> None:
    said = pyspy._reason(complaint)
    assert reason in said
    assert "\n" not in said and "backtrace" not in said


def program(folder: Path, mode: int = 0o755) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "py-spy"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_found_on_path_after_the_one_beside_us(tmp_path: Path) -> None:
    path = program(tmp_path / "bin")
    found = list(find([], {"PATH": f"{tmp_path}/none:{tmp_path}/bin:{tmp_path}/bin:relative:"}))
    assert found[-1] == path and found.count(path) == 1
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    assert not os.path.exists(beside) or found[0] == beside


def test_found_beside_the_interpreter_of_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    by_argv, by_venv = program(tmp_path / "env" / "bin"), program(tmp_path / "venv" / "bin")
    monkeypatch.setattr(pyspy.proc, "cmdline", lambda _pid: [f"{tmp_path}/env/bin/python", "-m", "sglang"])
    monkeypatch.setattr(pyspy.proc, "environ", lambda _pid: {"VIRTUAL_ENV": f"{tmp_path}/venv"})
    found = list(find([os.getpid()], {"PATH": ""}))
    assert [path for path in found if path.startswith(str(tmp_path))] == [by_argv, by_venv]


def test_a_program_in_another_mount_namespace_is_reached_through_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(pyspy.proc, "cmdline", lambda _pid: ["/opt/venv/bin/python"])
    monkeypatch.setattr(pyspy.proc, "environ", lambda _pid: None)
    monkeypatch.setattr(pyspy.proc, "namespace", lambda pid, _kind: f"mnt:[{pid}]")
    monkeypatch.setattr(pyspy, "is_trusted", lambda path: bool(seen.append(path)))
    assert list(find([4711], {"PATH": ""})) == []
    assert "/proc/4711/root/opt/venv/bin/py-spy" in seen


@pytest.mark.parametrize("mode, trusted", [(0o755, True), (0o775, True), (0o757, False), (0o644, False)])
def test_only_programs_that_not_everybody_could_have_put_there_are_run(
    tmp_path: Path, mode: int, trusted: bool
) -> None:
    assert pyspy.is_trusted(program(tmp_path, mode)) is trusted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_root_runs_no_program_of_another_user(tmp_path: Path) -> None:
    path = program(tmp_path)
    os.chown(path, 1234, 1234)
    assert not pyspy.is_trusted(path)


def test_a_missing_program_is_not_trusted(tmp_path: Path) -> None:
    assert not pyspy.is_trusted(str(tmp_path / "py-spy"))
    assert not pyspy.is_trusted(str(tmp_path))
