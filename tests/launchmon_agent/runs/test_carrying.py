"""Where a server's output goes besides its run directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launchmon_agent.codec import from_json, to_json
from launchmon_agent.output import Output
from launchmon_agent.runs import carrying
from launchmon_agent.runs.carrying import append, outlets_of
from launchmon_agent.runs.outlets import Outlets, Pane

PANE = Pane("%3", "main:1.0", "/dev/pts/4", "/tmp/tmux-0/default")


def of(monkeypatch: pytest.MonkeyPatch, *found: Output, foreground: int | None = None) -> Outlets:
    monkeypatch.setattr(carrying, "all_outputs", lambda _pid: list(found))
    monkeypatch.setattr("launchmon_agent.sensors.proc.foreground", lambda _pid: foreground)
    return outlets_of(os.getpid())


def test_files_and_the_pane_are_kept_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    found = of(monkeypatch, Output("tee", str(log)), Output("tmux", pane=PANE), foreground=os.getpgrp())
    assert found == Outlets((str(log),), PANE)
    assert found.words() == (f"appended to {log}, where it went before", "shown in tmux pane main:1.0 again")
    assert from_json(Outlets, to_json(found)) == found


def test_what_cannot_have_it_again_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Output("none", note="its output goes to /dev/null and is lost; start it with a log file")
    gone = Output("file", "/proc/1/fd/2", note="the log file was deleted")
    found = of(monkeypatch, gone, Output("tmux", pane=PANE), nobody, Output("file", "/nowhere/log"))
    assert (found.files, found.pane) == ((), None)
    assert found.words() == (
        "not where it went before: the file that it went to is deleted, or of another container",
        "not where it went before: it runs in the background of tmux pane main:1.0",
        "not where it went before: its output goes to /dev/null and is lost",
        "not where it went before: /nowhere/log may not be written by this user",
    )


def test_a_run_that_launchmon_launched_has_nothing_to_say() -> None:
    assert Outlets().words() == ()


def test_a_file_that_cannot_be_opened_harms_nothing(tmp_path: Path) -> None:
    (said,) = append([str(tmp_path / "gone" / "log")], "/dev/null", os.getpid())
    assert said == f"the output is not appended to {tmp_path}/gone/log: No such file or directory"
