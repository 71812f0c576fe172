"""The recording: one writer, torn lines, full disks, and a bounded size."""

from __future__ import annotations

import os
import stat
import zlib

import pytest

from launchmon_agent.codec import decode, encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Exit, Host, Mark, Notice, Verdict
from launchmon_agent.runs import recording as recordings
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.recording import (
    Recording,
    happenings,
    last_verdict,
    read_events,
    samples_since,
    shareable_lines,
)


@pytest.fixture
def directory(tmp_path) -> RunDirectory:
    return RunDirectory(str(tmp_path))


@pytest.fixture
def troubles() -> list[str]:
    return []


def notices(*texts: str) -> list[Event]:
    return [Notice(at=float(number), source="keeper", text=text) for number, text in enumerate(texts)]


def texts(directory: RunDirectory) -> list[str]:
    return [event.text for event in read_events(directory) if isinstance(event, Notice)]


def write(directory: RunDirectory, data: bytes) -> None:
    with open(directory.events, "ab") as file:
        file.write(data)


def test_what_is_appended_is_read(directory: RunDirectory, troubles: list[str]) -> None:
    recording = Recording(directory, troubles.append)
    assert recording.append(*notices("a", "b"))
    assert texts(directory) == ["a", "b"], "also while the writer has it open"
    recording.close()
    assert troubles == []
    assert stat.S_IMODE(os.stat(directory.events).st_mode) == 0o600


def test_a_second_writer_is_refused_and_a_later_one_goes_on(directory: RunDirectory, troubles: list[str]) -> None:
    first = Recording(directory, troubles.append)
    first.append(*notices("a"))
    with pytest.raises(Refused, match=directory.id):
        Recording(directory, troubles.append)
    first.close()
    second = Recording(directory, troubles.append)
    second.append(*notices("b"))
    second.close()
    assert texts(directory) == ["a", "b"]


def test_a_torn_last_line_is_passed_over_and_closed_by_the_next_writer(
    directory: RunDirectory, troubles: list[str]
) -> None:
    recording = Recording(directory, troubles.append)
    recording.append(*notices("a"))
    recording.close()
    write(directory, b'{"kind":"notice","at":1,"te')
    assert texts(directory) == ["a"]
    recording = Recording(directory, troubles.append)
    recording.append(*notices("b"))
    recording.close()
    assert texts(directory) == ["a", "b"]


def test_lines_that_are_no_events_are_passed_over(directory: RunDirectory, troubles: list[str]) -> None:
    write(directory, b"\x00\xff garbage\n[]\n\n" + b'{"kind":"notice","at":"x"}\n')
    recording = Recording(directory, troubles.append)
    recording.append(*notices("a"))
    recording.close()
    assert texts(directory) == ["a"]


def test_nothing_recorded_yet(directory: RunDirectory) -> None:
    assert list(read_events(directory)) == []
    assert list(read_events(RunDirectory(directory.path + "/missing"))) == []


def test_a_full_disk_is_reported_once_and_writing_goes_on_when_it_can(
    directory: RunDirectory, troubles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(directory, troubles.append)
    write_it = os.write
    room = 10

    def almost_full(descriptor: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(28, "No space left on device")
        written = write_it(descriptor, data[:room])
        room -= written
        return written

    monkeypatch.setattr(recordings.os, "write", almost_full)
    assert not recording.append(*notices("lost")), "ten bytes of it are on the disk"
    assert not recording.append(*notices("lost"))
    assert len(troubles) == 1
    assert "No space" in troubles[0]
    monkeypatch.setattr(recordings.os, "write", write_it)
    assert recording.append(*notices("kept"))
    recording.close()
    assert texts(directory) == ["kept"]


def test_a_recording_that_cannot_be_opened_loses_events_and_harms_nobody(tmp_path, troubles: list[str]) -> None:
    recording = Recording(RunDirectory(str(tmp_path / "gone")), troubles.append)
    assert not recording.append(*notices("a"))
    recording.close()
    assert len(troubles) == 2, "the lock and the file"


def samples(count: int) -> list[Event]:
    """A sample each second, and each 100 seconds something that happened."""
    out: list[Event] = []
    for second in range(count):
        out.append(Host(at=float(second), load1=1.0))
        if second % 100 == 0:
            out.append(Mark(at=float(second), id="weights", what="begin"))
            out.append(Exit(at=float(second), pid=second + 1))
    return out


def test_closed_parts_are_compressed_and_read_in_order(directory: RunDirectory, troubles: list[str]) -> None:
    everything = samples(1000)
    recording = Recording(directory, troubles.append, part_size=8000)
    for event in everything:
        recording.append(event)
    recording.close()
    names = sorted(os.listdir(directory.path))
    assert "events-0001.jsonl.gz" in names
    assert not [name for name in names if name.endswith(".new")]
    assert list(read_events(directory)) == everything


def test_past_the_cap_the_oldest_parts_lose_samples_and_nothing_that_happened(
    directory: RunDirectory, troubles: list[str]
) -> None:
    everything = samples(2000)
    for begin in range(0, len(everything), 200):
        recording = Recording(directory, troubles.append, part_size=6000, cap=1)
        recording.append(*everything[begin : begin + 200])
        recording.close()  # waits for the housekeeping
    assert [name for name in os.listdir(directory.path) if name.endswith(".thin.jsonl.gz")]
    kept = list(read_events(directory))
    assert [event for event in kept if not isinstance(event, Host)] == [
        event for event in everything if not isinstance(event, Host)
    ]
    hosts = [event.at for event in kept if isinstance(event, Host)]
    assert len(hosts) < 1200
    assert hosts == sorted(hosts)
    assert [at for at in hosts if at < 130][:3] == [0.0, 60.0, 120.0], "one a minute at the old end"
    assert hosts[-1] == 1999.0, "every second at the new end"


def test_the_last_verdict_is_found_in_whatever_part_it_is(directory: RunDirectory, troubles: list[str]) -> None:
    assert last_verdict(directory) is None
    recording = Recording(directory, troubles.append, part_size=2000)
    recording.append(Verdict(at=1.0, verdict="starting"), Verdict(at=2.0, verdict="ready"))
    assert last_verdict(directory) == Verdict(at=2.0, verdict="ready")
    for event in samples(300):
        recording.append(event)
    recording.close()
    assert len(os.listdir(directory.path)) > 2, "the verdict is in a closed part by now"
    assert last_verdict(directory) == Verdict(at=2.0, verdict="ready")
    write(directory, b'{"kind":"verdict","at":"torn"}\n{"kind":"verdict","at":3')
    assert last_verdict(directory) == Verdict(at=2.0, verdict="ready")


def test_a_part_whose_compression_was_interrupted_is_read_once_and_finished_later(
    directory: RunDirectory, troubles: list[str]
) -> None:
    recording = Recording(directory, troubles.append)
    recording.append(*notices("a"))
    recording.close()
    plain = os.path.join(directory.path, "events-0001.jsonl")
    os.rename(directory.events, plain)
    recordings._rewrite(plain, plain + ".gz", thin=False)
    with open(plain, "wb") as file:  # as if the crash came before the plain one was removed
        file.write(b'{"kind":"notice","at":0,"source":"keeper","text":"a"}\n')
    with open(plain + ".gz.new", "wb") as file:
        file.write(b"half")
    assert texts(directory) == ["a"]


def test_a_damaged_part_gives_what_can_be_read(directory: RunDirectory, troubles: list[str]) -> None:
    recording = Recording(directory, troubles.append)
    recording.append(*notices(*(str(number) for number in range(5000))))
    recording.close()
    plain = os.path.join(directory.path, "events-0001.jsonl")
    os.rename(directory.events, plain)
    recordings._rewrite(plain, plain + ".gz", thin=False)
    os.truncate(plain + ".gz", os.path.getsize(plain + ".gz") // 2)
    write(directory, b'{"kind":"notice","at":9,"text":"after"}\n')
    read = texts(directory)
    assert read[0] == "0"
    assert read[-1] == "after"
    assert 1 < len(read) < 5001


def write_damaged_part(directory: RunDirectory, events: list[Event]) -> None:
    """The first part, compressed, with bytes behind these events that no compression makes."""
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(b"".join(map(encode, events))) + packer.flush(zlib.Z_SYNC_FLUSH)
    with open(os.path.join(directory.path, "events-0001.jsonl.gz"), "wb") as file:
        file.write(data + b"\xff" * 64)  # "invalid block type" to zlib


def test_a_part_that_was_written_over_gives_what_lies_before(directory: RunDirectory) -> None:
    write_damaged_part(directory, notices(*(str(number) for number in range(10_000))))
    write(directory, b'{"kind":"notice","at":9,"text":"after"}\n')
    read = texts(directory)
    assert (read[0], read[-1]) == ("0", "after")
    assert 1 < len(read) <= 10_001
    assert len(list(happenings(directory))) == len(read)
    assert last_verdict(directory) is None
    shared = list(map(decode, shareable_lines(directory)))
    told = shared.pop(len(read) - 1)
    assert shared == list(read_events(directory))
    assert isinstance(told, Notice) and (told.at, told.source) == (shared[-2].at, "recording")
    assert told.text.startswith(f"events-0001.jsonl.gz can be read up to its line {len(read) - 1}:")
    assert samples_since(directory, "host", 0.0, 10) == []


def test_a_damaged_part_does_not_keep_the_others_from_being_thinned(
    directory: RunDirectory, troubles: list[str]
) -> None:
    write_damaged_part(directory, samples(200))
    for _ in range(3):
        recording = Recording(directory, troubles.append, part_size=6000, cap=1)
        recording.append(*samples(200))
        recording.close()  # waits for the housekeeping
    names = os.listdir(directory.path)
    assert {"events-0001.jsonl.gz", "events-0002.thin.jsonl.gz", "events-0003.thin.jsonl.gz"} <= set(names)
