from __future__ import annotations

import pytest
from rich.cells import cell_len

from launchmon import format as fmt


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (-3, "0.0s"),
        (0, "0.0s"),
        (0.4, "0.4s"),
        (0.97, "1s"),
        (4.2, "4s"),
        (9.6, "10s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (298, "4m58s"),
        (3599, "59m59s"),
        (3600, "1h00m"),
        (3720, "1h02m"),
        (86400 * 3 + 3600 * 4, "3d04h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "--:--:--"), (341, "00:05:41"), (93_600, "26:00:00"), (-1, "00:00:00")]
)
def test_clock(seconds: float | None, text: str) -> None:
    assert fmt.clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.41, "0.4 s"), (9.96, "9 s"), (12.3, "12 s"), (75, "1m15s"), (-1, "0.0 s")]
)
def test_ages(seconds: float, text: str) -> None:
    assert fmt.age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0K"),
        (831_488, "812K"),
        (int(3.9 * 1024**3), "3.9G"),
        (79 * 1024**3, "79G"),
        (1.2 * 1024**4, "1.2T"),
        (2000 * 1024**5, "2000P"),
    ],
)
def test_sizes(count: float | None, text: str) -> None:
    assert fmt.size(count) == text


def test_rates_say_that_they_are_rates() -> None:
    assert fmt.rate(0) == "0 B/s"
    assert fmt.rate(None) == "–"


@pytest.mark.parametrize(
    ("used", "total", "text"),
    [
        (76 * fmt.GIB, 96 * fmt.GIB, "76.0/96"),
        (None, 96 * fmt.GIB, "–/96"),
        (0, 96 * fmt.GIB, "0.0/96"),
        (None, None, "–"),
        (120 * fmt.GIB, 141 * fmt.GIB, "120/141"),
    ],
)
def test_used_of_total(used: float | None, total: float | None, text: str) -> None:
    assert fmt.used_of(used, total) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"), [(None, 1, "–"), (0.0, 1, "0.0%"), (62.4, 0, "62%"), (812.3, 1, "812%")]
)
def test_percents(value: float | None, digits: int, text: str) -> None:
    assert fmt.percent(value, digits) == text


@pytest.mark.parametrize("fraction", [None, -1, 0, 0.01, 0.33, 0.5, 0.99, 1, 7])
def test_a_bar_has_its_width(fraction: float | None) -> None:
    assert sum(map(len, fmt.bar(fraction, 8))) == 8


def test_bars() -> None:
    assert fmt.bar(0.5, 4) == ("━━", "──")
    assert fmt.bar(0.375, 4) == ("━╸", "──")
    assert fmt.bar(None, 4) == ("", "····")


def test_sparkline_is_newest_right_with_gaps_for_the_unknown() -> None:
    assert fmt.sparkline([0.0, 50.0, None, 100.0], 6) == "  ▁▄ ▇"
    assert fmt.sparkline([1.0] * 50, 3) == "▁▁▁"
    assert fmt.sparkline([], 3) == "   "


def test_ranges_of_values() -> None:
    assert fmt.span_of([41.0, 41.0, None]) == "41"
    assert fmt.span_of([41.0, 38.0]) == "38–41"
    assert fmt.span_of([None]) == "–"


@pytest.mark.parametrize(
    "text", ["", "short", "exactly ten", "much longer than that", "日本語のログの行", "a日b本c語d"]
)
@pytest.mark.parametrize("width", [1, 2, 5, 10])
@pytest.mark.parametrize("align", ["left", "right"])
def test_fitted_text_has_exactly_its_width(text: str, width: int, align: str) -> None:
    assert cell_len(fmt.fit(text, width, align)) == width


def test_what_is_cut_says_so() -> None:
    assert fmt.clip("much longer", 5) == "much…"
    assert fmt.clip("fits", 4) == "fits"
    assert fmt.clip("any", 0) == ""


@pytest.mark.parametrize("text", ["one two three four", "averyveryverylongword and more", "日本語のログの行 と 次", ""])
@pytest.mark.parametrize("width", [1, 4, 7, 30])
def test_wrapping_keeps_all_words_within_the_width(text: str, width: int) -> None:
    lines = fmt.wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) <= max(2, width) for line in lines)  # one wide character always takes two cells


def test_counting_words() -> None:
    assert fmt.plural(1, "rank") == "1 rank"
    assert fmt.plural(2, "process", "processes") == "2 processes"
    assert fmt.thousands(1234567) == "1,234,567"
