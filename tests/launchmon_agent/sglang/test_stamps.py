from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from launchmon_agent.sglang.stamps import LogClock

UTC_1610 = 1795968600.0  # 2026-11-29 16:10:00 UTC


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_stamp_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LogClock().read(b"2026-11-29 16:10:02") == UTC_1610 + 2
    assert LogClock().read(b"2026-11-29 16:10:02.250") == UTC_1610 + 2.25
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert LogClock().read(b"2026-11-29 17:10:02") == UTC_1610 + 2


@pytest.mark.parametrize("stamp", [b"2026-02-31 10:00:00", b"2026-11-29 25:00:00", b"9999-99-99 00:00:00"])
def test_what_is_no_time_is_none(stamp: bytes) -> None:
    assert LogClock().read(stamp) is None


def test_a_server_in_another_zone_is_corrected_by_its_live_lines() -> None:
    clock = LogClock()
    clock.calibrate(b"2026-11-29 08:10:00", UTC_1610 + 3)  # 8 hours behind, seen after 3 s
    assert clock.read(b"2026-11-29 08:10:10") == UTC_1610 + 10
    clock.calibrate(b"2026-11-29 08:11:00", UTC_1610 + 61)
    assert clock.shift == 8 * 3600
    india = LogClock()
    india.calibrate(b"2026-11-29 21:40:00", UTC_1610)
    assert india.shift == -5.5 * 3600


@pytest.mark.parametrize("late", [0.0, 15.0, 100.0, 400.0, 892.0, 908.0, 40 * 86400.0])
def test_a_late_line_is_no_other_zone(late: float) -> None:
    clock = LogClock()
    clock.calibrate(b"2026-11-29 16:10:00", UTC_1610 + late)
    assert clock.shift == 0.0


def test_stamps_without_a_date_take_it_from_when_they_were_written() -> None:
    clock = LogClock()
    assert clock.read(b"16:10:02") is None
    assert clock.read(b"16:09:58", UTC_1610) == UTC_1610 - 2
    assert clock.read(b"23:59:59") == UTC_1610 + 28199
    assert clock.read(b"00:00:01") == UTC_1610 + 28201
    assert LogClock().read(b"23:00:00", UTC_1610) == UTC_1610 + 24600 - 86400  # not in the future: yesterday's


def test_stamps_without_a_date_follow_those_with_one() -> None:
    clock = LogClock()
    clock.read(b"2026-11-29 16:10:00")
    assert clock.read(b"16:10:02", UTC_1610 + 86400) == UTC_1610 + 2
