"""The heartbeat, from files made in SGLang's layout and held open by real processes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchmon_agent.codec import decode, encode
from launchmon_agent.events import Beat, Process
from launchmon_agent.sensors import heartbeat, proc
from launchmon_agent.sensors.heartbeat import AFRESH_S, SEARCH_S, HeartbeatSensor, read_slot

SLOT = 16 * 1024
NOW = 1764439200.0


def packed(**fields: float) -> bytes:
    """A map as msgspec writes it: whole numbers as they are, the others as doubles, nothing for zeros."""
    kept = {name: value for name, value in fields.items() if value}
    out = bytes([0x80 | len(kept)])
    for name, value in kept.items():
        out += b"\xd9" + bytes([len(name)]) + name.encode()
        out += b"\xce" + struct.pack(">I", value) if isinstance(value, int) else b"\xcb" + struct.pack(">d", value)
    return out


def content(*payloads: bytes, magic: bytes = b"SLNS", version: int = 2, slot: int = SLOT) -> bytes:
    head = struct.pack("<4sHHI", magic, version, len(payloads), slot)
    return head + b"".join((struct.pack("<I", len(data)) + data).ljust(slot, b"\0") for data in payloads)


BUSY = packed(
    timestamp=NOW - 1.5, num_running_reqs=3, num_waiting_reqs=2, token_usage=0.25, gen_throughput=120.5, dp_rank=0
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "loads"


def test_a_slot_is_read(file: Path) -> None:
    file.write_bytes(content(BUSY, packed(timestamp=NOW, dp_rank=1)))
    first = read_slot(str(file), 0)
    assert first is not None
    assert (first.timestamp, first.running, first.waiting) == (NOW - 1.5, 3, 2)
    assert (first.token_usage, first.gen_throughput) == (0.25, 120.5)
    second = read_slot(str(file), 1)
    assert second is not None and (second.timestamp, second.running) == (NOW, 0)
    assert read_slot(str(file), 2) is None


def test_a_slot_without_a_time_is_one_whose_event_loop_has_not_turned(file: Path) -> None:
    file.write_bytes(content(packed()))
    load = read_slot(str(file), 0)
    assert load is not None and load.timestamp is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SLNS",
        content(BUSY, magic=b"XXXX"),
        content(BUSY, version=3),
        content(BUSY)[:100],
        content(b""),
        content(BUSY[:-1]),
        content(b"\x01"),
        struct.pack("<4sHHI", b"SLNS", 2, 1, SLOT) + struct.pack("<I", SLOT) + b"\0" * SLOT,
        struct.pack("<4sHHI", b"SLNS", 2, 1, 0xFFFFFFFF) + b"\0" * 64,
    ],
    ids=[
        "empty",
        "cut head",
        "magic",
        "version",
        "cut slot",
        "being written",
        "torn",
        "no map",
        "too long",
        "huge slot",
    ],
)
def test_what_is_no_load_gives_none(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert read_slot(str(file), 0) is None


def test_a_slot_that_is_being_written_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer sets the length to 0 first and writes it last; here it finishes between two readings."""
    whole = content(BUSY)
    file.write_bytes(content(b""))
    readings = 0
    read = os.pread

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal readings
        readings += 1
        if readings == 3:
            file.write_bytes(whole)
        return read(descriptor, size, offset)

    monkeypatch.setattr(heartbeat.os, "pread", pread)
    load = read_slot(str(file), 0)
    assert load is not None and load.running == 3


def test_a_payload_that_changed_while_it_was_read_is_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_bytes(content(BUSY))
    read = os.pread
    changed = False

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal changed
        data = read(descriptor, size, offset)
        if size == len(BUSY) and not changed:
            changed = True
            file.write_bytes(content(packed(timestamp=NOW, num_running_reqs=9)))
        return data

    monkeypatch.setattr(heartbeat.os, "pread", pread)
    load = read_slot(str(file), 0)
    assert load is not None and load.running == 9


# ---------------------------------------------------------------------------------------------------- through a process

HOLDER = "import os, sys; os.open(sys.argv[1], os.O_RDWR); print(flush=True); sys.stdin.read()"


@pytest.fixture
def shm() -> Iterator[Path]:
    """A file where SGLang has its own, with a name of this test alone."""
    path = Path(f"/dev/shm/sglang_loads_launchmon-test-{uuid.uuid4().hex}.shm")
    yield path
    path.unlink(missing_ok=True)


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def scheduler(pid: int, rank: str = "TP0", **more: str) -> Process:
    return Process(pid=pid, start_time=proc.start_time(pid) or 0.0, role="scheduler", rank=rank, **more)


def test_age_grows_while_nothing_is_written_and_falls_with_the_next_turn(shm: Path) -> None:
    shm.write_bytes(content(BUSY))
    sensor = HeartbeatSensor()
    with holder(shm) as process:
        rank = scheduler(process.pid)
        ages = [sensor.sample(NOW + passed, [rank]).beats[0].age_s for passed in (0, 1, 10)]
        assert ages == [1.5, 2.5, 11.5]
        shm.write_bytes(content(packed(timestamp=NOW + 11.0)))
        (beat,) = sensor.sample(NOW + 11.0, [rank]).beats
        assert (beat.age_s, beat.running, beat.initialised) == (0.0, 0, True)


def test_a_clock_that_is_behind_the_writers_gives_no_negative_age(shm: Path) -> None:
    shm.write_bytes(content(BUSY))
    with holder(shm) as process:
        assert HeartbeatSensor().sample(NOW - 5, [scheduler(process.pid)]).beats[0].age_s == 0.0


def test_each_replica_has_its_slot_by_its_dp_number(shm: Path) -> None:
    shm.write_bytes(content(packed(timestamp=NOW - 1), packed(timestamp=NOW - 2)))
    with holder(shm) as first, holder(shm) as second:
        ranks = [scheduler(first.pid, "DP0 TP0"), scheduler(second.pid, "DP1 TP0")]
        beats = HeartbeatSensor().sample(NOW, ranks).beats
    assert [(beat.rank, beat.age_s) for beat in beats] == [("DP0 TP0", 1.0), ("DP1 TP0", 2.0)]


def test_before_the_first_turn_there_is_no_age(shm: Path) -> None:
    shm.write_bytes(content(packed()))
    with holder(shm) as process:
        (beat,) = HeartbeatSensor().sample(NOW, [scheduler(process.pid)]).beats
    assert (beat.initialised, beat.age_s, beat.running) == (False, None, None)


def test_a_writer_that_died_in_the_middle_leaves_the_last_reading_to_age(shm: Path) -> None:
    shm.write_bytes(content(BUSY))
    sensor = HeartbeatSensor()
    with holder(shm) as process:
        rank = scheduler(process.pid)
        sensor.sample(NOW, [rank])
        shm.write_bytes(content(b""))
        (beat,) = sensor.sample(NOW + 60, [rank]).beats
    assert (beat.age_s, beat.running) == (61.5, 3)


def test_a_file_that_was_never_readable_says_so(shm: Path) -> None:
    shm.write_bytes(content(b""))
    with holder(shm) as process:
        (beat,) = HeartbeatSensor().sample(NOW, [scheduler(process.pid)]).beats
    assert (beat.initialised, beat.age_s) == (None, None)


def test_an_unlinked_file_is_still_read(shm: Path) -> None:
    shm.write_bytes(content(BUSY))
    with holder(shm) as process:
        shm.unlink()
        assert HeartbeatSensor().sample(NOW, [scheduler(process.pid)]).beats[0].age_s == 1.5


def test_ranks_without_a_file_are_passed_over_and_searched_again(tmp_path: Path, shm: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    shm.write_bytes(content(BUSY))
    sensor = HeartbeatSensor()
    with holder(other) as process:
        rank = scheduler(process.pid)
        assert sensor.sample(NOW, [rank]).beats == ()
    with holder(shm) as process:
        rank = scheduler(process.pid)
        assert len(sensor.sample(NOW + 0.1, [rank]).beats) == 1, "another process is searched at once"


def test_a_file_opened_late_is_found_at_the_next_search(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shm.write_bytes(content(BUSY))
    sensor = HeartbeatSensor()
    with holder(shm) as process:
        rank = scheduler(process.pid)
        with monkeypatch.context() as patch:
            patch.setattr(proc, "fd_links", lambda pid, besides: {0: "/dev/null"})
            assert sensor.sample(NOW, [rank]).beats == ()
        assert sensor.sample(NOW + SEARCH_S - 0.1, [rank]).beats == ()
        assert len(sensor.sample(NOW + SEARCH_S, [rank]).beats) == 1


def test_the_file_is_also_found_in_place_of_a_descriptor_that_was_closed(
    shm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shm.write_bytes(content(BUSY))
    sensor = HeartbeatSensor()
    with holder(shm) as process:
        rank = scheduler(process.pid)
        links = proc.fd_links(process.pid) or {}
        with monkeypatch.context() as patch:
            patch.setattr(proc, "fd_links", lambda pid, besides: dict.fromkeys(links, "/dev/null"))
            assert sensor.sample(NOW, [rank]).beats == ()
        assert len(sensor.sample(NOW + AFRESH_S, [rank]).beats) == 1


def test_other_roles_zombies_and_the_gone_are_no_replicas(shm: Path) -> None:
    shm.write_bytes(content(BUSY))
    sensor = HeartbeatSensor()
    with holder(shm) as process:
        alive = scheduler(process.pid)
        assert sensor.sample(NOW, [Process(process.pid, alive.start_time, "detokenizer")]).beats == ()
        assert sensor.sample(NOW, [scheduler(process.pid, state="Z")]).beats == ()
        assert sensor.sample(NOW, [Process(0, 0.0, "scheduler", rank="TP1")]).beats == ()
        assert len(sensor.sample(NOW, [alive]).beats) == 1
    (beat,) = sensor.sample(NOW + 1, [alive]).beats
    assert beat.age_s == 2.5, "a process that is just ending keeps its last reading"
    assert sensor.sample(NOW + 2, []).beats == ()


def test_the_event_survives_its_way(shm: Path) -> None:
    shm.write_bytes(content(BUSY))
    with holder(shm) as process:
        event = HeartbeatSensor().sample(NOW, [scheduler(process.pid)])
    back = decode(encode(event))
    assert back.beats == tuple(  # type: ignore[attr-defined]
        Beat(**{**vars(beat), "start_time": round(beat.start_time, 3)}) for beat in event.beats
    )
