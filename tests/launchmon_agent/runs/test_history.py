"""The small file that a run leaves for its successors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from launchmon_agent.events import Mark, Run
from launchmon_agent.machine import boot_id
from launchmon_agent.model import RunModel
from launchmon_agent.runs import directory, history
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.history import earlier, expected, write_phases


def launch(began: float, weights_s: float, model: str = "/m/kimi") -> RunModel:
    out = RunModel()
    out.fold(Run(began, id="r", model=model, engine_version="0.5.12", start_time=began))
    out.fold(Mark(began + 1, id="args", what="end", phase="start"))
    out.fold(Mark(began + 2, id="weights", what="begin", phase="weights", rank="TP0"))
    out.fold(Mark(began + 2 + weights_s, id="weights", what="end", phase="weights", rank="TP0"))
    return out


def place(root: Path, began: float) -> RunDirectory:
    return directory.create(("true",), "kimi", root=str(root), clock=lambda: began)


def test_a_run_learns_from_those_before_it(tmp_path: Path) -> None:
    for began, weights_s in ((1e9, 300.0), (1e9 + 1000, 20.0), (1e9 + 2000, 30.0)):
        run = place(tmp_path, began)
        assert write_phases(run, launch(began, weights_s), began + 500)
    now = 1e9 + 3000
    mine = place(tmp_path, now)
    found = expected(launch(now, 25.0), now, str(tmp_path), besides=mine.path)
    assert found is not None
    assert (found.runs, found.warm, found.usual["weights"]) == (2, True, 25.0), "the first one was cold"


def test_a_run_is_never_its_own_example(tmp_path: Path) -> None:
    run = place(tmp_path, 1e9)
    assert write_phases(run, launch(1e9, 300.0), 1e9 + 500)
    assert write_phases(run, launch(1e9, 300.0), 1e9 + 600), "written again at its end"
    (kept,) = earlier(str(tmp_path))
    assert kept.warm is False
    assert earlier(str(tmp_path), besides=run.path) == []


def test_the_file_is_small_private_and_whole(tmp_path: Path) -> None:
    run = place(tmp_path, 1e9)
    write_phases(run, launch(1e9, 300.0), 1e9 + 500)
    path = Path(run.path, "phases.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < 1000
    assert json.loads(path.read_text())["seconds"]["weights"] == 300.0
    assert sorted(os.listdir(run.path)) == ["phases.json", "run.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": "x"}', "{}", '{"at": 1, "seconds": {"a": "b"}}'])
def test_damaged_files_are_passed_over(tmp_path: Path, text: str) -> None:
    Path(place(tmp_path, 1e9).path, "phases.json").write_text(text)
    whole = place(tmp_path, 1e9 + 1)
    write_phases(whole, launch(1e9 + 1, 5.0), 1e9 + 100)
    assert [one.seconds["weights"] for one in earlier(str(tmp_path))] == [5.0]


def test_newest_directories_are_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "NEWEST", 2)
    for number in range(4):
        began = 1e9 + 100 * number
        write_phases(place(tmp_path, began), launch(began, float(number)), began + 50)
    assert [one.seconds["weights"] for one in earlier(str(tmp_path))] == [3.0, 2.0]


def test_nothing_is_written_of_a_run_that_is_not_known(tmp_path: Path) -> None:
    assert not write_phases(place(tmp_path, 1e9), RunModel(), 1e9)
    assert expected(RunModel(), 0.0, str(tmp_path)) is None
    assert earlier(str(tmp_path / "missing")) == []


def test_a_directory_that_is_gone_harms_nobody(tmp_path: Path) -> None:
    assert not write_phases(RunDirectory(str(tmp_path / "gone")), launch(1e9, 1.0), 1e9)


def test_the_boot_has_an_id() -> None:
    found = boot_id()
    assert found is None or len(found) == 36
