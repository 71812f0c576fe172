from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from launchmon.cli.doctor import clock_capability
from launchmon.cluster.clocks import Offset
from launchmon.doctor import here
from launchmon.doctor.report import Examined, Report, as_object, capability_of, text
from launchmon_agent.capability import BROKEN, LESS, OK, STATES, Capability

WELL = Capability("a", OK, "fine")
POOR = Capability("b", LESS, "half", "the other half", "mend it")
DEAD = Capability("c", BROKEN, "gone", "everything", "install it")


@pytest.mark.parametrize(("worst", "status"), [(WELL, 0), (POOR, 2), (DEAD, 1)])
def test_the_exit_status_is_that_of_the_worst_here_or_there(worst: Capability, status: int) -> None:
    assert Report([WELL, worst]).exit_status == status
    assert Report([WELL], [Examined("gpu7", [worst]), Examined("gpu8", [WELL])]).exit_status == status


def test_broken_outweighs_less() -> None:
    assert Report([DEAD, POOR]).exit_status == 1


def test_text_has_costs_and_help_of_what_is_missing_only() -> None:
    shown = text(Report([WELL, POOR], [Examined("gpu7", [DEAD])]))
    lines = shown.splitlines()
    assert "  ok      a             fine" in lines
    assert any(line.split() == ["costs:", "the", "other", "half"] for line in lines)
    assert any(line.split() == ["try:", "install", "it"] for line in lines)
    assert "BROKEN" in shown and "gpu7" in shown
    assert lines[-1] == "1 cannot work, 1 works with less; the rest is well."
    assert shown.count("costs:") == 2
    assert text(Report([WELL])).endswith("All well.")


def test_lines_fit_the_terminal() -> None:
    long = Capability("d", LESS, "word " * 60, "cost " * 60, "help " * 60)
    assert max(map(len, text(Report([long]), 80).splitlines())) <= 80
    assert max(map(len, text(Report([long]), 300).splitlines())) <= 100


def test_what_an_agent_says_is_obeyed_by_no_terminal() -> None:
    evil = {"id": "x\x1b[2J", "state": "splendid", "found": "\x1b]52;c;aGk=\x07", "cost": "\n\r", "try": 7}
    report = Report([], [Examined("a\x1b[0m", [capability_of(evil)])])
    shown = text(report)
    assert "\x1b" not in shown and "\x07" not in shown and "\r" not in shown
    assert report.exit_status == 2


def test_the_object_is_stable_and_tells_no_names_and_no_secrets() -> None:
    found = Capability("state", OK, "/home/alice/.local on build-box-9 with token hf_" + "a" * 34)
    report = Report([found], [Examined("alice@build-box-9", [found], "build-box-9.corp.example", "alice")])
    body = as_object(report, 1_764_400_000.0, "laptop-of-alice", "alice")
    assert set(body) == {"schema", "at", "state", "client", "targets"}
    assert body["schema"] == 1 and body["at"] == "2025-11-29T07:06:40Z" and body["state"] == OK
    assert set(body["client"][0]) == {"id", "state", "found", "cost", "try"}
    assert set(body["targets"][0]) == {"name", "state", "capabilities"}
    told = json.dumps(body)
    assert "alice" not in told and "build-box-9" not in told and "hf_a" not in told


def test_a_clock_that_is_off_is_told_with_its_way() -> None:
    assert clock_capability(Offset(0.01, 0.02)).state == OK
    assert clock_capability(Offset(5.0, 9.0)).state == OK  # the way there and back may be all of it
    ahead = clock_capability(Offset(-3.0, 0.02))
    assert ahead.state == LESS and "3.00 s ahead" in ahead.found
    assert "behind" in clock_capability(Offset(3.0, 0.02)).found


# ---------------------------------------------------------------------------------------------------------- the client


def test_everything_here_is_told() -> None:
    found = here.examine({"PATH": "/usr/bin:/bin", "HOME": "/"})
    assert len({one.id for one in found}) == len(found) == 10
    assert all(one.state in STATES and one.found and (one.cost or one.state == OK) for one in found)


@pytest.mark.parametrize(
    ("term", "size", "state"),
    [
        ("xterm", (120, 40), OK),
        ("xterm", (79, 40), LESS),
        ("xterm", (120, 20), LESS),
        ("dumb", (120, 40), BROKEN),
        ("", (120, 40), BROKEN),
        ("xterm", None, LESS),
    ],
)
def test_terminal(term: str, size: tuple[int, int] | None, state: str) -> None:
    assert here.terminal({"TERM": term}, size).state == state


def test_colours_and_glyphs_are_those_that_the_screen_would_choose() -> None:
    assert here.colour({"TERM": "xterm-256color"}).state == OK
    assert here.colour({"TERM": "xterm", "NO_COLOR": "1"}).state == OK
    assert here.colour({"TERM": "xterm"}).state == LESS
    assert "tmux" in here.colour({"TERM": "screen", "TMUX": "/tmp/x,1,0"}).try_
    assert here.unicode({"LANG": "de_DE.UTF-8"}).state == OK
    assert here.unicode({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}).state == LESS


def test_terminals_that_take_no_copied_text() -> None:
    assert here.clipboard({"TERM": "xterm"}).state == OK
    assert here.clipboard({"TERM": "linux"}).state == LESS
    assert here.clipboard({"TERM": "xterm", "TERM_PROGRAM": "Apple_Terminal"}).state == LESS


def test_a_missing_tmux(tmp_path: Path) -> None:
    assert here.tmux({"PATH": str(tmp_path)}).state == LESS


def test_a_configuration_with_mistakes(tmp_path: Path) -> None:
    (tmp_path / "launchmon").mkdir()
    (tmp_path / "launchmon" / "config.toml").write_text("thme = 1\nbell = 7\n")
    found = here.configuration({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found.state == LESS and "(and 1 more)" in found.found
    assert here.configuration({"XDG_CONFIG_HOME": str(tmp_path / "none")}).state == OK


def test_a_missing_asyncssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert here.asyncssh().state == BROKEN
    assert "pip install asyncssh" in here.asyncssh().try_


def test_an_ssh_configuration_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host gpu7\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert here.ssh().found.startswith("1 host in")
    monkeypatch.setattr(here, "files", lambda: ())
    assert here.ssh().state == LESS and "chmod" in here.ssh().try_


def test_a_state_directory_that_cannot_be_made() -> None:
    assert here.state({"XDG_STATE_HOME": "/proc"}).state == LESS
    assert here.state({"XDG_STATE_HOME": "/tmp"}).state == OK
