"""Following a log: slices, growth, generations, and the state that is told."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, LastLine, Log, Notice
from launchmon_agent.log import follow
from launchmon_agent.log.engine import LogEngine
from launchmon_agent.log.follow import Follower
from launchmon_agent.log.source import LogFile
from launchmon_agent.log.sources import FileSource


class Recorder:
    """A scanner that keeps what it is fed; each ``!`` in it is an event."""

    def __init__(self) -> None:
        self.launch_offset = 0
        self.fed: list[tuple[int, bytes, float | None]] = []
        self.resets = 0
        self.calibrated: list[tuple[bytes, float]] = []

    def calibrate(self, tail: bytes, written_at: float) -> None:
        self.calibrated.append((tail, written_at))

    def feed(self, offset: int, data: bytes, now: float | None) -> list[Event]:
        self.fed.append((offset, data, now))
        return [Notice(now or 0.0, source="log", text=f"at {offset}")] * data.count(b"!")

    def last_lines(self) -> tuple[LastLine, ...]:
        return ()

    def reset(self) -> None:
        self.resets += 1
        self.fed.clear()

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data, _ in self.fed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def follower(path: Path) -> tuple[Follower, Recorder]:
    recorder = Recorder()
    return Follower(LogFile(str(path)), recorder), recorder


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def catch_up(following: Follower, now: float) -> list[Event]:
    found = following.poll(now)
    for _ in range(10_000):
        if not following.behind:
            return found
        found += following.poll(now)
    raise AssertionError("the follower never caught up")


def logs(found: list[Event]) -> list[Log]:
    """Without the name of the file, which is another one each time."""
    return [replace(event, file=None) for event in found if isinstance(event, Log)]


def test_what_is_there_already_is_of_an_unknown_time(path: Path) -> None:
    path.write_bytes(b"old\n")
    os.utime(path, (900.0, 900.0))
    following, recorder = follower(path)
    (state,) = logs(following.poll(1000.0))
    assert recorder.fed == [(0, b"old\n", None)]
    assert recorder.calibrated == [(b"old\n", 900.0)]
    assert state == Log(1000.0, size=4, lines=1, indexed=4, scanned=4, grown_at=900.0)
    append(path, b"new!\n")
    found = following.poll(1001.0)
    assert recorder.fed[1:] == [(4, b"new!\n", 1001.0)]
    assert [type(event) for event in found] == [Notice, Log]
    assert logs(found) == [Log(1001.0, size=9, lines=2, indexed=9, scanned=9, grown_at=1001.0)]


def test_a_time_of_writing_in_the_future_is_not_believed(path: Path) -> None:
    path.write_bytes(b"old\n")
    os.utime(path, (5000.0, 5000.0))
    following, _ = follower(path)
    assert logs(following.poll(1000.0))[0].grown_at == 1000.0


def test_the_state_is_told_when_it_changes_and_four_times_a_second_at_most(path: Path) -> None:
    path.write_bytes(b"")
    following, _ = follower(path)
    assert len(logs(following.poll(10.0))) == 1
    assert following.poll(11.0) == []
    told = []
    for tenth in range(1, 21):
        append(path, b"x\n")
        told += logs(following.poll(12.0 + tenth / 10))
    assert 4 <= len(told) <= 8
    told += logs(following.poll(20.0))
    assert (told[-1].size, told[-1].lines) == (40, 20)


def test_a_large_log_is_read_in_slices_while_its_end_can_be_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "SCAN_S", 0.0)
    monkeypatch.setattr(follow, "INDEX_S", 0.0)
    monkeypatch.setattr(follow, "INDEX_PART", 1000)
    data = b"".join(b"line %d\n" % number for number in range(20_000))
    path.write_bytes(data)
    recorder = Recorder()
    engine = LogEngine(FileSource(str(path)), recorder, lambda line: None)
    engine.poll(1.0)
    assert engine.behind
    assert [line.text for line in engine.window("end", 2).lines] == ["line 19998", "line 19999"]
    assert engine._follower.index.indexed < len(data)
    monkeypatch.setattr(follow, "SCAN_S", 1.0)
    monkeypatch.setattr(follow, "INDEX_PART", 10**6)
    state = logs(catch_up(engine._follower, 2.0) + engine.poll(3.0))[-1]
    assert (state.scanned, state.indexed, state.lines) == (len(data), len(data), 20_000)
    assert recorder.text == data
    engine.close()


def test_growth_is_fed_in_order_without_loss(path: Path) -> None:
    path.write_bytes(b"start\n")
    following, recorder = follower(path)
    whole = b"start\n"
    for number in range(200):
        part = b"%d " % number * (number % 50) + b"\n" * (number % 3)
        append(path, part)
        whole += part
        following.poll(float(number))
    catch_up(following, 300.0)
    assert recorder.text == whole
    offsets = [offset for offset, _, _ in recorder.fed]
    assert offsets == sorted(offsets)
    assert following.index.lines == whole.count(b"\n")


def test_nothing_of_a_rotated_file_is_lost(path: Path) -> None:
    path.write_bytes(b"one!\n")
    following, recorder = follower(path)
    following.poll(1.0)
    append(path, b"two!\n")
    path.rename(path.with_suffix(".1"))
    path.write_bytes(b"three!\n")
    before = following.poll(2.0)
    assert recorder.text == b"one!\ntwo!\n"
    assert [event for event in before if isinstance(event, Notice)]
    found = following.poll(2.1) + following.poll(2.2)
    assert recorder.resets == 1
    assert recorder.fed == [(0, b"three!\n", 2.1)] or recorder.fed == [(0, b"three!\n", 2.2)]
    # The model forgets the old file when it hears of the new one: that comes before anything found in it.
    assert [type(event) for event in found][:2] == [Log, Notice]
    assert (logs(found)[0].generation, logs(found)[0].scanned) == (1, 0)
    assert logs(following.poll(3.0))[-1] == Log(
        3.0, size=7, lines=1, indexed=7, scanned=7, generation=1, grown_at=recorder.fed[0][2]
    )


def test_a_truncated_file_is_read_again_from_its_start(path: Path) -> None:
    path.write_bytes(b"before\n" * 100)
    following, recorder = follower(path)
    following.poll(1.0)
    path.write_bytes(b"after\n")
    state = logs(following.poll(2.0))[0]
    assert (state.generation, state.size) == (1, 6)
    assert recorder.fed == [(0, b"after\n", 2.0)]


def test_a_log_that_comes_late(path: Path) -> None:
    following, recorder = follower(path)
    (state,) = logs(following.poll(1.0))
    assert (state.size, state.lines) == (0, None)
    assert state.error and "does not exist (yet)" in state.error
    assert not following.behind
    path.write_bytes(b"first!\n")
    found = following.poll(2.0)
    assert recorder.fed == [(0, b"first!\n", 2.0)]
    assert logs(found + following.poll(3.0))[-1] == Log(3.0, size=7, lines=1, indexed=7, scanned=7, grown_at=2.0)


def test_a_log_that_is_deleted_says_so_and_is_followed_on(path: Path) -> None:
    path.write_bytes(b"a\n")
    following, recorder = follower(path)
    following.poll(1.0)
    with path.open("ab") as writer:
        path.unlink()
        writer.write(b"b\n")
    state = logs(following.poll(2.0))[0]
    assert recorder.text == b"a\nb\n"
    assert state.error and "deleted or moved" in state.error


def test_it_is_not_behind_for_ever_at_a_file_that_cannot_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"x\n")
    following, _ = follower(path)
    monkeypatch.setattr(type(following.log.content), "read_at", lambda *_: b"")
    following.poll(1.0)
    assert not following.behind


# -------------------------------------------------------------------------------------------------------------- engine


class Ended(FileSource):
    problem: str | None = "the log command has ended"


def test_why_a_source_gives_no_more_is_told(path: Path) -> None:
    path.write_bytes(b"x\n")
    engine = LogEngine(Ended(str(path)), Recorder(), lambda line: None)
    assert logs(engine.poll(1.0))[0].error == "the log command has ended"


@pytest.mark.parametrize(
    "where",
    [{"at": "start"}, {"at": 1.5}, {"at": None}, {"at": True}, {"before": "3"}, {"after": None}, {"pattern": 3}],
)
def test_a_window_that_makes_no_sense_is_refused(where: dict[str, object], path: Path) -> None:
    path.write_bytes(b"x\n")
    engine = LogEngine(FileSource(str(path)), Recorder(), lambda line: None)
    with pytest.raises(Refused):
        engine.window(**where)  # type: ignore[arg-type]


def test_capitals_count_only_where_the_pattern_has_some(path: Path) -> None:
    path.write_bytes(b"An ERROR\n")
    engine = LogEngine(FileSource(str(path)), Recorder(), lambda line: None)
    assert engine.search("error").offset == 0
    assert engine.search("Error").offset is None
    assert engine.search("Error", ignore_case=True).offset == 0
    assert engine.search("e.+r", regex=True).offset == 0
    assert [line.text for line in engine.window(0, after=5, only="error").lines] == ["An ERROR"]
    with pytest.raises(Refused):
        engine.search("x", start="0")  # type: ignore[arg-type]
