from __future__ import annotations

import pytest

from launchmon.tui.log_buffer import KEEP, LogBuffer, Viewport
from tests.support.fake_session import FakeLine, FakeLog, FakeWindow


def log_of(count: int, text: str = "line {}") -> FakeLog:
    log = FakeLog()
    for number in range(count):
        log.write(text.format(number))
    return log


def viewport(log: FakeLog, height: int = 5, width: int = 40) -> Viewport:
    port = Viewport()
    port.buffer.replace(log.window(0, 0, 10_000))
    port.resize(width, height)
    return port


def seen(port: Viewport) -> list[str]:
    return [row.text for row in port.rows()]


def test_following_shows_the_end() -> None:
    port = viewport(log_of(20))
    assert seen(port) == [f"line {number}" for number in range(15, 20)]
    assert port.at_bottom


def test_scrolling_moves_by_rows_and_says_what_is_missing() -> None:
    port = viewport(log_of(20))
    assert port.scroll(-3) == 0
    assert seen(port)[0] == "line 12"
    assert port.scroll(-20) == -8
    assert seen(port)[0] == "line 0"
    assert port.scroll(100) == 85
    assert seen(port)[-1] == "line 19"


def test_a_log_shorter_than_the_screen_does_not_scroll() -> None:
    port = viewport(log_of(2))
    assert seen(port) == ["line 0", "line 1"]
    assert port.scroll(1) == 1
    assert port.scroll(-1) == -1


def test_wrapped_lines_scroll_by_rows() -> None:
    port = viewport(log_of(4, "{} abcdefghijklmno"), width=10)
    port.set_wrap(True)
    assert (
        seen(port) == ["hijklmno", "2 abcdefgh", "ijklmno", "3 abcdefgh", "ijklmno"][-5:] or seen(port)[-1] == "ijklmno"
    )
    rows = seen(port)
    assert port.scroll(-1) == 0
    assert seen(port)[1:] == rows[:-1]


def test_wrapping_cuts_between_whole_characters() -> None:
    port = viewport(log_of(1, "日本語{}のログ"), width=5)
    port.set_wrap(True)
    assert seen(port) == ["日本", "語0", "のロ", "グ"]


def test_panning_cuts_at_the_left() -> None:
    port = viewport(log_of(1, "{} abcdef"), width=4)
    port.shift = 2
    (row,) = port.rows()
    assert row.text == "abcdef"
    assert row.more


def test_showing_a_line_near_the_end_leaves_no_empty_rows() -> None:
    log = log_of(20)
    port = viewport(log)
    port.follow = False
    port.show(log.lines[19].offset, above=1)
    assert seen(port) == [f"line {number}" for number in range(15, 20)]
    port.show(log.lines[10].offset + 2, above=1)
    assert seen(port)[:2] == ["line 9", "line 10"]


def test_growing_the_screen_fills_it_from_above() -> None:
    port = viewport(log_of(20))
    port.follow = False
    port.resize(40, 8)
    assert seen(port) == [f"line {number}" for number in range(12, 20)]


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_windows_join_into_the_whole_log(chunk: int) -> None:
    log = log_of(50)
    buffer = LogBuffer()
    buffer.replace(log.window(log.lines[25].offset, 0, 1))
    while not buffer.at_start:
        buffer.prepend(log.window(buffer.start, chunk, 0))
    while not buffer.at_end:
        buffer.append(log.window(buffer.end, 0, chunk))
    assert [line.text for line in buffer.lines] == [f"line {number}" for number in range(50)]
    assert (buffer.start, buffer.end) == (0, log.size)


def test_a_line_that_was_still_being_written_is_replaced() -> None:
    buffer = LogBuffer()
    buffer.replace(FakeWindow((FakeLine(0, 1, "half"),), 0, 4, True, True, 4, 0))
    buffer.append(FakeWindow((FakeLine(0, 1, "half and half"), FakeLine(14, 2, "next")), 0, 19, True, True, 19, 0))
    assert [line.text for line in buffer.lines] == ["half and half", "next"]


def test_memory_is_bounded_at_either_end() -> None:
    log = log_of(3 * KEEP)
    buffer = LogBuffer()
    buffer.replace(log.window("end", KEEP, 0))
    buffer.prepend(log.window(buffer.start, KEEP, 0))
    assert len(buffer.lines) == KEEP
    assert not buffer.at_end
    first = buffer.lines[10]
    buffer.append(log.window(buffer.end, 0, 10))
    assert len(buffer.lines) == KEEP
    assert buffer.lines[0] == first
    assert buffer.start == buffer.lines[0].offset


def test_the_line_of_an_offset() -> None:
    log = log_of(3)
    buffer = LogBuffer()
    assert buffer.index_of(5) == 0
    buffer.replace(log.window(0, 0, 3))
    assert [buffer.index_of(offset) for offset in (0, 6, 7, 13, 14, 99)] == [0, 0, 1, 1, 2, 2]
