"""What a client keeps of a run that nobody records."""

from __future__ import annotations

from launchmon.kept import Kept
from launchmon_agent.codec import encode
from launchmon_agent.events import Event, Host, Log, Mark, Notice
from launchmon_agent.runs.sampling import Sampling


def kept(events: list[Event], block: int = 2000, cap: int = 1 << 20) -> list[bytes]:
    store = Kept(block, cap)
    for event in events:
        store.add(event, encode(event))
    return store.lines()


def test_lines_come_back_in_order_whether_packed_or_not() -> None:
    events: list[Event] = [Notice(float(number), source="log", text="x" * 50) for number in range(200)]
    assert kept(events) == [encode(event) for event in events]


def test_samples_that_follow_too_fast_are_left_out_and_the_last_state_is_not() -> None:
    events: list[Event] = [Log(1.0, size=1), Log(1.1, size=2), Log(1.2, size=3), Host(1.3), Host(2.3)]
    assert kept(events) == [encode(event) for event in (events[0], events[3], events[2], events[4])]


def test_old_samples_go_and_happenings_stay_when_it_grows_too_large() -> None:
    events: list[Event] = []
    for number in range(500):
        events += [Host(float(number), cpus=number), Mark(float(number), "x", "info", offset=number)]
    lines = kept(events, cap=3000)
    assert [line for line in lines if b'"mark"' in line] == [encode(e) for e in events if isinstance(e, Mark)]
    hosts = [line for line in lines if b'"host"' in line]
    assert hosts == [encode(event) for event in events if isinstance(event, Host)][-len(hosts) :]
    assert 0 < len(hosts) < 200


def test_a_state_that_waits_is_replaced_by_a_newer_one() -> None:
    sampling = Sampling()
    assert sampling.take(Log(1.0, size=1), 1.0)
    assert not sampling.take(Log(1.5, size=2), 1.0)
    assert sampling.due(1.9, 1.0) == []
    assert sampling.take(Log(2.0, size=3), 1.0)
    assert sampling.due(9.0, 1.0) == []
