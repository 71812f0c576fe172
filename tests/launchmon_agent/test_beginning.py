from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent import beginning
from launchmon_agent.beginning import Beginnings, directories, pythons
from launchmon_agent.errors import Refused
from launchmon_agent.sglang import common
from launchmon_agent.sglang.flags.model import Flag, FlagList


def environment(folder: Path, version: str | None) -> str:
    """A Python with, or without, an SGLang of this version; its path."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    if version is not None:
        (packages / f"sglang-{version}.dist-info").mkdir()
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    python.symlink_to(os.path.realpath("/proc/self/exe"))
    return str(python)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine is found."""
    monkeypatch.setattr(beginning, "discover", list)
    monkeypatch.setattr(beginning, "_PLACES", ("~/.venv",))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def test_pythons_with_sglang_come_first_and_each_once(tmp_path: Path) -> None:
    bare = environment(tmp_path / "bare", None)
    has = environment(tmp_path / "home" / ".venv", "0.5.23")
    environ = {"VIRTUAL_ENV": str(tmp_path / "bare"), "PATH": os.path.dirname(bare)}
    assert pythons(environ) == [(has, "0.5.23"), (bare, None)]


def test_what_is_not_there_is_no_python(tmp_path: Path) -> None:
    assert pythons({"VIRTUAL_ENV": str(tmp_path), "CONDA_PREFIX": "relative", "PATH": str(tmp_path)}) == []


def test_a_python_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        Beginnings().answer("launch-options", {"python": str(tmp_path / "python")})
    assert "does not exist" in refused.value.what


def test_the_directory_of_an_environment_stands_for_its_python(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "0.5.1")
    found = Beginnings().answer("launch-options", {"python": str(tmp_path / "venv")})
    assert found["python"] == python
    assert not found["flags_complete"]  # no source is there to be read


def test_what_keeps_a_command_from_starting_is_told_and_no_error(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", None)
    argv = [python, "-m", "sglang.launch_server", "--model-path", str(tmp_path / "no-model")]
    found = Beginnings().answer("launch-plan", {"argv": argv, "env": {}})
    assert "does not exist" in found["refused"]["what"] and found["findings"] == []


def test_a_command_that_can_start_has_findings_and_preparations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    found: dict[str, Any] = Beginnings().answer("launch-plan", {"argv": ["/bin/sh", "-c", "true"]})
    assert found["refused"] is None and found["findings"] == []
    assert any(line.startswith("PYTHONUNBUFFERED=1") for line in found["preparations"])


def test_directories_that_go_on_from_what_is_typed(tmp_path: Path) -> None:
    for name in ("kimi", "kinds", "llama", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "kimi" / "config.json").write_text("{}")
    (tmp_path / "kiwi.txt").write_text("no directory")
    found = directories(f"{tmp_path}/ki", "/")
    assert found == {
        "directories": [{"path": f"{tmp_path}/kimi", "model": True}, {"path": f"{tmp_path}/kinds", "model": False}],
        "more": False,
        "late": False,
    }
    assert [one["path"] for one in directories("l", str(tmp_path))["directories"]] == ["llama"]
    assert len(directories(f"{tmp_path}/", "/")["directories"]) == 3
    assert [one["path"] for one in directories(f"{tmp_path}/.h", "/")["directories"]] == [f"{tmp_path}/.hidden"]


def test_the_home_is_written_out_and_a_place_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "home" / "models").mkdir(parents=True)
    assert [one["path"] for one in directories("~/mo", "/")["directories"]] == [str(tmp_path / "home" / "models")]
    assert directories("/no/such/place/x", "/") == {"directories": [], "more": False, "late": False}


def test_many_directories_are_cut_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(beginning, "MOST_DIRECTORIES", 3)
    for number in range(5):
        (tmp_path / f"m{number}").mkdir()
    found = directories(f"{tmp_path}/m", "/")
    assert len(found["directories"]) == 3 and found["more"]


# ---------------------------------------------------------------------------------------------------- the common flags


def test_the_form_asks_for_what_a_launch_needs_and_ten_flags_more() -> None:
    sections = [row.section for row in common.rows()]
    assert sections == [common.NEEDS] * 3 + [common.OFTEN] * 10
    assert len({row.id for row in common.rows()}) == len({row.flag for row in common.rows()}) == 13
    assert common.rows()[0].flag == "--model-path"


@pytest.mark.parametrize("row", common.rows(), ids=lambda row: row.id)
def test_each_common_flag_can_be_asked_for(row: common.CommonFlag) -> None:
    assert row.flag.startswith("--") and row.flag == row.flag.lower()
    assert 0 < len(row.label) <= 13  # the width of its column
    assert 20 < len(row.hint) <= 110 and not row.hint.endswith(".")


def test_flags_that_an_sglang_lacks_are_not_asked_for() -> None:
    old = FlagList((Flag("--model-path"), Flag("--port")), version="0.3.0")
    assert [row.id for row in common.common_flags(old)] == ["model", "port"]
    partly = FlagList((Flag("--model-path"),), complete=False)
    assert common.common_flags(partly) == common.rows()


def test_a_refusal_that_quotes_the_command_hides_its_secrets() -> None:
    refused = Beginnings().answer("launch-plan", {"argv": ["/nowhere --api-key=hunter2hunter2"]})["refused"]
    assert "/nowhere --api-key=" in refused["what"]
    assert "hunter2" not in str(refused)
