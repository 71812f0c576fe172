from __future__ import annotations

import pytest

from launchmon.tui.widgets.lines import (
    TONES,
    clipped,
    ends,
    joined,
    joined_within,
    merged,
    overlaid,
    pointed,
    row_width,
    safe,
)
from launchmon.tui.widgets.table import Column, lay_out

COLUMNS = (
    Column("name", "NAME", 4, most=20),
    Column("big", "BIG", 10, rank=2, align="right"),
    Column("small", "S", 3, rank=1),
)


def text_of(row: tuple[tuple[str, str], ...]) -> str:
    return "".join(text for text, _ in row)


@pytest.mark.parametrize(
    ("width", "names", "gap"),
    [
        (40, ["name", "big", "small"], 2),
        (20, ["name", "big", "small"], 1),
        (12, ["name", "small"], 1),
        (5, ["name"], 1),
    ],
)
def test_gaps_shrink_then_columns_leave_by_rank(width: int, names: list[str], gap: int) -> None:
    layout = lay_out(COLUMNS, width)
    assert [column.name for column, _ in layout.columns] == names
    assert layout.gap == gap


@pytest.mark.parametrize("width", [5, 12, 20, 22, 40])
def test_heading_and_rows_are_aligned(width: int) -> None:
    layout = lay_out(COLUMNS, width)
    row = layout.row({"name": ("a name that is far too long", "plain"), "big": ("1", "plain"), "small": ("x", "plain")})
    assert row_width(row) == row_width(layout.heading()) <= width


def test_spare_room_goes_to_columns_that_grow() -> None:
    assert lay_out(COLUMNS, 30).width_of("name") == 12
    assert lay_out(COLUMNS, 300).width_of("name") == 20
    assert lay_out(COLUMNS, 5).width_of("big") == 0


def test_a_cell_can_have_several_tones() -> None:
    row = lay_out(COLUMNS, 40).row({"small": (("ab", "data"), ("c", "muted"))})
    assert ("ab", "data") in row
    assert ("c", "muted") in row


def test_ends_drops_the_right_one_where_both_do_not_fit() -> None:
    left, right = (("left", "plain"),), (("right", "plain"),)
    assert text_of(ends(left, right, 12)) == "left   right"
    assert text_of(ends(left, right, 10)) == "left"


def test_overlaid_keeps_the_width() -> None:
    row = overlaid((("a long heading of columns", "title"),), (("12 s", "warn"),), 16)
    assert text_of(row) == "a long hea… 12 s"


def test_clipped_says_that_text_is_cut_off_but_not_that_space_is() -> None:
    row = (("abc", "title"), ("   ", "plain"), ("def", "muted"))
    assert text_of(clipped(row, 9)) == "abc   def"
    assert text_of(clipped(row, 8)) == "abc   d…"
    assert text_of(clipped(row[:2], 4)) == "abc "
    assert text_of(clipped(row, 0)) == ""
    assert text_of(clipped((("日本語", "plain"),), 5)) == "日本…"


def test_joining_leaves_out_what_is_empty_or_does_not_fit() -> None:
    parts = [(("one", "plain"),), (), (("two", "plain"),), (("three", "plain"),)]
    assert text_of(joined(parts)) == "one · two · three"
    assert text_of(joined_within(parts, 12)) == "one · two"
    assert text_of(joined_within(parts, 1)) == "one"


def test_the_focus_is_a_glyph() -> None:
    row = ((" LOG", "title"),)
    assert text_of(pointed(row, True)) == "▸LOG"
    assert pointed(row, False) == row


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x07", "\x9b31m", "a\u202eb", "\r", "\u200b"])
def test_nothing_a_terminal_obeys_is_left(hostile: str) -> None:
    assert safe(hostile).isprintable()


def test_ordinary_text_is_left_alone() -> None:
    assert safe("Größe 日本 ✓") == "Größe 日本 ✓"
    assert safe("a\tb\nc") == "a b c"


def test_spans_that_look_the_same_are_merged() -> None:
    row = ((" ", "plain"), ("a", "muted"), ("  ", "plain"), ("", "bad"), ("b", "muted"), ("x", "hit"), (" ", "plain"))
    assert merged(row) == ((" ", "plain"), ("a  b", "muted"), ("x", "hit"), (" ", "plain"))
    assert text_of(merged(row)) == text_of(row)


def test_tones_are_unique() -> None:
    assert len(set(TONES)) == len(TONES)
