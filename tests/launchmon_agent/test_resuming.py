"""Whether the run of a client that comes back is still there, and what it missed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent import resuming
from launchmon_agent.events import Event, Gpus, Host, Processes
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.recording import Recording
from launchmon_agent.samples import HISTORY
from launchmon_agent.sensors import proc

OWN = os.getpid()
BEGAN = proc.start_time(OWN)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return directory.create(("x",), name="one")


def record(run: RunDirectory, *events: Event, part_size: int = 1 << 20) -> None:
    recording = Recording(run, lambda _text: None, part_size=part_size)
    for event in events:
        recording.append(event)
    recording.close()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"pid": OWN, "start_time": BEGAN}, None),
        ({"pid": OWN, "start_time": 1.0}, "ended while the link was down: another process has its number now"),
        ({"pid": 2**22 + 1, "start_time": 1.0}, f"the server (process {2**22 + 1}) ended while the link was down"),
        ({"pid": None, "start_time": None}, "no such run any more"),
        ({"recorded": "/x"}, None),
    ],
)
def test_a_process_is_its_number_and_its_start(args: dict[str, Any], says: str | None) -> None:
    gone = resuming.gone(args)
    assert gone is None if says is None else gone is not None and says in gone


def test_a_launched_run_is_there_as_long_as_its_files(run: RunDirectory) -> None:
    assert resuming.gone({"run": run.id, "pid": 1, "start_time": 1.0}) is None
    os.unlink(os.path.join(run.path, "run.json"))
    gone = resuming.gone({"run": run.id})
    assert gone is not None and gone.startswith("no such run any more")
    assert resuming.gone({"run": "../../etc"}) is not None


def test_the_samples_that_were_missed_come_in_order(run: RunDirectory) -> None:
    events: list[Event] = []
    for second in range(10):
        events += [Gpus(float(second)), Processes(second + 0.1), Host(second + 0.2)]
    record(run, *events)
    missed = resuming.missed({"run": run.id, "since": 6.05})
    assert [(event.kind, event.at) for event in missed] == [
        ("processes", 6.1),
        ("gpus", 7.0),
        ("processes", 7.1),
        ("gpus", 8.0),
        ("processes", 8.1),
        ("gpus", 9.0),
        ("processes", 9.1),
    ]
    assert resuming.missed({"run": run.id, "since": None}) == []
    assert resuming.missed({"run": None, "since": 1.0}) == []


@pytest.mark.parametrize("part_size", [1 << 20, 300])
def test_no_more_are_sent_than_are_kept_also_from_closed_parts(run: RunDirectory, part_size: int) -> None:
    record(run, *(Gpus(float(second)) for second in range(3 * HISTORY)), part_size=part_size)
    missed = resuming.missed({"run": run.id, "since": 1.0})
    assert [event.at for event in missed] == [float(second) for second in range(2 * HISTORY, 3 * HISTORY)]
