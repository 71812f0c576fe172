"""A jump to any moment of a recording gives the model that all events up to there give."""

from __future__ import annotations

from typing import Any

import pytest

from launchmon.replay.recorded import Recorded
from launchmon_agent.codec import decode, encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Host, Log, LogError, Mark, Notice, Processes, Run
from launchmon_agent.model import RunModel
from tests.support.curves import utilisation
from tests.support.replaying import recorded, seed_lines

LINES = seed_lines()


def seen(model: RunModel) -> dict[str, Any]:
    """All that a model can tell."""
    gpus = () if model.gpus is None else model.gpus.gpus
    return {
        "replay": list(model.replay()),
        "now": model.now,
        "began": model.began_observing,
        "phase": model.phases.run_phase(),
        "rail": model.phases.rail(model.now),
        "spans": list(model.phases.spans()),
        "history": [utilisation(model, gpu.index) for gpu in gpus],
        "samples": [model.samples.of_rank(row.rank or "") for row in model.rank_rows() if row.pid],  # curves are shown
        "failure": model.first_failure,
    }


def folded(lines: list[bytes]) -> RunModel:
    model = RunModel()
    for line in lines:
        model.fold(decode(line))
    return model


@pytest.mark.parametrize("position", [0, 1, 2, 60, 200, 201, 350, len(LINES) - 12, len(LINES) - 3, len(LINES)])
def test_a_jump_is_the_same_as_folding_everything(position: int) -> None:
    assert seen(Recorded(LINES).model_at(position)) == seen(folded(LINES[:position]))


def test_going_on_from_a_jump_is_the_same_too() -> None:
    recording = Recorded(LINES)
    model = recording.model_at(300)
    recording.advance(model, 300, 420)
    assert seen(model) == seen(folded(LINES[:420]))


def test_a_jump_decodes_a_bounded_part_of_the_samples() -> None:
    """An hour of samples more costs a jump nothing."""
    long = [encode(Host(float(second))) for second in range(5000)]
    recording = Recorded(long)
    decoded: list[int] = []
    event = recording.event
    recording.event = lambda place: decoded.append(place) or event(place)  # type: ignore[method-assign,func-returns-value]
    model = recording.model_at(len(recording))
    assert model.now == 4999.0
    assert model.began_observing == 0.0
    assert len(decoded) < 100


def test_another_launch_in_the_log_forgets_errors_of_the_one_before() -> None:
    events = [
        Run(1.0, id="r"),
        Log(2.0, size=100),
        Mark(2.0, "args", "begin", offset=1),
        LogError(3.0, offset=50, id="oom", severity="fatal"),
        *(Log(3.0 + number, size=1000 + number, launch_offset=500) for number in range(100)),
        Mark(200.0, "args", "begin", offset=600),
        *(Log(201.0 + number, size=2000 + number, launch_offset=500) for number in range(100)),
        *(Log(400.0 + number, size=number, generation=1) for number in range(100)),
    ]
    recording = recorded(*events)
    lines = [encode(event) for event in events]
    for position in (4, 50, 104, 105, 106, 205, 206, len(events)):
        assert seen(recording.model_at(position)) == seen(folded(lines[:position])), position


def test_a_jump_to_long_after_the_clock_was_set_back_shows_the_new_time() -> None:
    before = [Processes(4000.0 + second) for second in range(100)]
    after = [Processes(400.0 + second) for second in range(100)]
    events = [Run(3999.0, id="r"), *before, Notice(4099.5, text="x"), *after]
    recording = recorded(*events)
    lines = [encode(event) for event in events]
    for position in (100, 102, 103, 110, len(events)):
        assert recording.model_at(position).now == folded(lines[:position]).now, position
    assert recording.model_at(len(events)).now == 499.0


def test_time_goes_by_what_was_known_when() -> None:
    recording = recorded(
        Mark(5.0, "args", "begin"), Run(100.0, id="r"), Mark(7.0, "x", "info"), Host(101.0), Host(99.0)
    )
    assert (recording.begin, recording.end) == (100.0, 101.0)
    assert [recording.position(at) for at in (99.0, 100.0, 100.5, 101.0, 200.0)] == [0, 3, 3, 5, 5]
    assert recording.time(4) == 101.0


def test_a_recording_of_log_lines_alone_has_a_time() -> None:
    recording = recorded(Mark(5.0, "args", "begin"), Mark(7.0, "x", "info"))
    assert (recording.begin, recording.end) == (7.0, 7.0)


def test_what_is_no_event_is_passed_over() -> None:
    damaged = [
        b"nonsense\n",
        b'{"kind":"host"}\n',
        b"[1]\n",
        b'{"at":1,"kind":"host"}\n',
        b'{"kind":"host","at":2,"cpus":"x"}\n',
    ]
    recording = Recorded([*damaged, encode(Notice(3.0, text="here"))])
    assert len(recording) == 3
    assert [note.text for note in recording.model_at(3).notices] == ["here"]


@pytest.mark.parametrize("lines", [[], [b"\x1f\x8b\x08binary\n"], [b"\n"]])
def test_no_events_are_refused(lines: list[bytes]) -> None:
    with pytest.raises(Refused):
        Recorded(lines)
