from __future__ import annotations

from launchmon_agent.sensors.proc import TICKS
from launchmon_agent.sensors.usage import Rate, TreeCpu


def test_a_rate_needs_two_samples() -> None:
    rate = Rate()
    assert rate.per_second(100, 10.0) is None
    assert rate.per_second(300, 12.0) == 100.0


def test_a_rate_after_a_gap_is_not_known() -> None:
    rate = Rate()
    rate.per_second(100, 10.0)
    assert rate.per_second(None, 11.0) is None
    assert rate.per_second(400, 12.0) is None
    assert rate.per_second(500, 13.0) == 100.0


def test_a_clock_that_stands_or_goes_back_gives_no_rate() -> None:
    rate = Rate()
    rate.per_second(100, 10.0)
    assert rate.per_second(200, 10.0) is None
    assert rate.per_second(300, 9.0) is None
    assert rate.per_second(310, 10.0) == 10.0


def test_samples_in_quick_succession_make_no_peaks() -> None:
    rate = Rate()
    rate.per_second(100, 10.0)
    assert rate.per_second(110, 11.0) == 10.0
    assert rate.per_second(120, 11.01) == 10.0, "not 1000"
    assert rate.per_second(130, 12.0) == 20.0, "over the whole second"


def test_a_counter_that_was_reset_gained_nothing() -> None:
    rate = Rate()
    rate.per_second(100, 10.0)
    assert rate.per_second(5, 11.0) == 0.0


def test_a_child_between_two_readings_makes_no_dip_and_no_peak() -> None:
    tree = TreeCpu()
    seconds = [tree.advance(ticks * TICKS) for ticks in (10, 12, 7, 14, 15)]
    assert seconds == [10, 12, 12, 14, 15]


def test_time_lost_for_good_is_forgotten() -> None:
    tree = TreeCpu()
    seconds = [tree.advance(ticks * TICKS) for ticks in (100, 20, 21, 22, 23, 25)]
    assert seconds == [100, 100, 100, 100, 101, 103]
