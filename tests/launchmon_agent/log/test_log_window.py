"""Windows and search, against lists of lines kept beside the file."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.log import filter as filter_module
from launchmon_agent.log import lines as lines_module
from launchmon_agent.log import match as match_module
from launchmon_agent.log import window as window_module
from launchmon_agent.log.content import Content
from launchmon_agent.log.filter import Filter
from launchmon_agent.log.index import LineIndex
from launchmon_agent.log.match import matcher
from launchmon_agent.log.owner import owner_of
from launchmon_agent.log.search import Found, search
from launchmon_agent.log.window import Window, window

LONG = 60.0
"""Patience that no test uses up."""


def opened(path: Path, data: bytes) -> Content:
    path.write_bytes(data)
    return Content(os.open(path, os.O_RDONLY))


def indexed(content: Content) -> LineIndex:
    built = LineIndex(content)
    while built.step(10**6):
        pass
    return built


def plain(line: bytes) -> str | None:
    """The owner of a line by a prefix as short as ``TP3:``."""
    found = re.match(rb"([A-Z]+\d+):", line)
    return found[1].decode() if found else None


def texts(found: Window) -> list[str]:
    return [line.text for line in found.lines]


LOG = b"".join(b"TP%d: line %d\n" % (number % 3, number) for number in range(300))
ALL = Filter(plain)


# ------------------------------------------------------------------------------------------------------------- windows


def test_the_tail(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", LOG + b"unfinished")
    found = window(content, indexed(content), "end", 3, 10, ALL)
    assert texts(found) == ["TP1: line 298", "TP2: line 299", "unfinished"]
    assert [line.number for line in found.lines] == [299, 300, 301]
    assert [line.rank for line in found.lines] == ["TP1", "TP2", "TP2"]
    assert (found.at_start, found.at_end, found.more, found.end) == (False, True, False, len(LOG) + 10)


def test_around_an_offset_anywhere_in_a_line(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", LOG)
    start = LOG.index(b"TP1: line 100\n")
    for offset in (start, start + 5, start + 13):
        found = window(content, indexed(content), offset, 2, 2, ALL)
        assert texts(found) == ["TP2: line 98", "TP0: line 99", "TP1: line 100", "TP2: line 101"]
        assert found.lines[2].offset == start
        assert [line.number for line in found.lines] == [99, 100, 101, 102]
        assert not found.at_start and not found.at_end


def test_the_whole_file_by_windows_that_follow_each_other(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", LOG)
    lines = LOG.decode().splitlines()
    down: list[str] = []
    at = 0
    while True:
        found = window(content, None, at, 0, 7, ALL)
        down += texts(found)
        at = found.end
        if found.at_end:
            break
    assert down == lines
    up: list[str] = []
    place: int | str = "end"
    while True:
        found = window(content, None, place, 7, 0, ALL)
        up[:0] = texts(found)
        place = found.start
        if found.at_start:
            break
    assert up == lines


@pytest.mark.parametrize("at", [-5, 0, 10**12])
def test_places_outside_the_file_are_its_ends(at: int, tmp_path: Path) -> None:
    content = opened(tmp_path / "log", LOG)
    found = window(content, None, at, 1, 1, ALL)
    assert texts(found) == (["TP2: line 299"] if at > 0 else ["TP0: line 0"])
    assert (found.at_start, found.at_end) == (at <= 0, at > 0)


def test_an_empty_or_missing_log_is_an_empty_window(tmp_path: Path) -> None:
    for content in (opened(tmp_path / "log", b""), Content.nothing(3)):
        found = window(content, None, "end", 10, 10, ALL)
        assert (found.lines, found.at_start, found.at_end, found.more, found.size) == ((), True, True, False, 0)
        assert found.generation == content.generation


def test_an_unfinished_line_is_given_again_when_it_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    content = opened(path, b"TP0: done\n 10%")
    first = window(content, None, "end", 5, 0, ALL)
    with path.open("ab") as file:
        file.write(b"\r 20%")
    again = window(content, None, first.end, 0, 5, ALL)
    assert (texts(first), texts(again)) == (["TP0: done", " 10%"], [" 20%"])
    assert again.lines[0].offset == first.lines[1].offset


def test_numbers_are_unknown_beyond_the_index(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", LOG)
    found = window(content, LineIndex(content), "end", 2, 0, ALL)
    assert [line.number for line in found.lines] == [None, None]


def test_a_window_has_a_limit(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", b"x\n" * 5000)
    found = window(content, None, 5000, 10**9, 10**9, ALL)
    assert len(found.lines) == 2 * window_module.MOST_LINES


def test_a_long_line_is_cut_and_says_so(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", b"y" * 15_000 + b"\n" + b"z" * (10 << 20) + b"\nlast\n")
    found = window(content, None, "end", 3, 0, ALL, patience=LONG)
    assert [line.cut for line in found.lines] == [True, True, False]
    assert found.lines[0].text == "y" * 4096 + " … +10904 bytes"
    assert found.lines[1].text == "z" * 4096 + f" … +{(10 << 20) - 4096} bytes"


# ------------------------------------------------------------------------------------------------------------- filters


def test_a_rank_with_its_continuation_lines(tmp_path: Path) -> None:
    data = b"TP0: a\nTP1: Traceback\n  File x\n  File y\nTP0: b\n  more of b\nTP1: c\n"
    content = opened(tmp_path / "log", data)
    own = Filter(plain, rank="TP1")
    found = window(content, indexed(content), 0, 0, 10, own)
    assert texts(found) == ["TP1: Traceback", "  File x", "  File y", "TP1: c"]
    assert [line.number for line in found.lines] == [2, 3, 4, 7]
    assert {line.rank for line in found.lines} == {"TP1"}
    middle = data.index(b"  File y")
    assert texts(window(content, None, middle, 1, 1, own)) == ["  File x", "  File y"]
    assert texts(window(content, None, "end", 2, 0, own)) == ["  File y", "TP1: c"]


@pytest.mark.parametrize("seed", range(8))
def test_filters_agree_with_a_plain_loop(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 200)
    chance = random.Random(seed)
    lines, owner, expected = [], None, []
    for number in range(600):
        text = f"TP{chance.randrange(3)}: {number}" if chance.random() < 0.6 else f"    continued {number}"
        owner = plain(text.encode()) or owner
        lines.append(text)
        if owner == "TP2" and "3" in text:
            expected.append(text)
    content = opened(tmp_path / "log", "\n".join(lines).encode())
    monkeypatch.setattr(filter_module, "OWNER_BLOCKS", 1000)
    wanted = Filter(plain, "TP2", matcher(r"3", regex=False))
    down: list[str] = []
    at, at_end = 0, False
    while not at_end:
        found = window(content, None, at, 0, 7, wanted, LONG)
        down += texts(found)
        at, at_end = found.end, found.at_end
    assert down == expected
    up: list[str] = []
    place: int | str = "end"
    while place != 0:
        found = window(content, None, place, 7, 0, wanted, LONG)
        up[:0] = texts(found)
        place = found.start
    assert up == expected


def test_a_search_for_few_lines_stops_in_time_and_goes_on_from_there(tmp_path: Path) -> None:
    data = b"TP0: x\n" * 40_000 + b"TP1: found\n"
    content = opened(tmp_path / "log", data)
    own = Filter(plain, rank="TP1")
    found = window(content, None, 0, 0, 5, own, patience=0.0)
    assert found.more and not found.lines and 0 < found.end < len(data)
    requests = 1
    while found.more:
        assert found.end > 0
        found = window(content, None, found.end, 0, 5, own, patience=0.0)
        requests += 1
    assert texts(found) == ["TP1: found"] and found.at_end
    assert requests > 2
    back = window(content, None, "end", 2, 0, own, patience=0.0)
    assert texts(back) == ["TP1: found"] and back.more
    while back.more:
        back = window(content, None, back.start, 2, 0, own, patience=0.0)
    assert back.at_start


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        (b"[2025-11-29 17:36:46 DP1 TP0] Load weight begin.", "DP1 TP0"),
        (b"[2025-11-29 17:36:46] server_args={}", "launcher"),
        (b"\x1b[31m[2025-11-29 17:36:46 TP3] error\x1b[0m", "TP3"),
        (b"server-1  | [2025-11-29 17:36:46 PP1 TP3] x", "PP1 TP3"),
        (b"Loading: 3/3[2025-11-29 17:36:46 TP1] done", "TP1"),
        (b"[rank3]:[W1129 16:04:07.824 file.cpp:1] x", "TP3"),
        (b'  File "x.py", line 3, in [TP0]', None),
        (b"", None),
    ],
)
def test_whose_line_it_is(line: bytes, owner: str | None) -> None:
    assert owner_of(line) == owner


def test_a_bar_and_the_line_that_follows_it_without_a_newline_is_the_ranks(tmp_path: Path) -> None:
    data = b"[2025-11-29 17:36:46] a\n\r 0%|   |\r50%|#  |\r[2025-11-29 17:36:47 TP1] b\n"
    found = window(opened(tmp_path / "log", data), None, 0, 0, 9, Filter(owner_of))
    assert [(line.rank, line.text) for line in found.lines] == [
        ("launcher", "[2025-11-29 17:36:46] a"),
        ("TP1", "[2025-11-29 17:36:47 TP1] b"),
    ]


# -------------------------------------------------------------------------------------------------------------- search


def look(
    content: Content, pattern: str, start: int, *, forwards: bool = True, rank: str | None = None, **kind: bool
) -> int | None:
    looking = matcher(pattern, **kind)
    try:
        return search(content, start, Filter(plain, rank, looking), forwards=forwards, patience=LONG).offset
    finally:
        looking.close()


def test_the_next_and_the_previous_hit(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", LOG)
    hits = [LOG.index(b"TP%d: line %d\n" % (number % 3, number)) for number in (7, 17, 27)]
    assert look(content, "7", 0) == hits[0]
    assert look(content, "7", hits[0]) == hits[0]
    assert look(content, "7", hits[0] + 1) == hits[1]
    assert look(content, "7", hits[2], forwards=False) == hits[1]
    assert look(content, "7", hits[2] + 1, forwards=False) == hits[2]
    assert look(content, "7", hits[0], forwards=False) is None
    assert look(content, "line 7", 0, rank="TP0") == LOG.index(b"TP0: line 72")
    assert look(content, "nowhere", 0) is None


@pytest.mark.parametrize(
    ("pattern", "kind", "found"),
    [
        ("Error", {}, True),
        ("error", {}, False),
        ("ERROR", {"ignore_case": True}, True),
        ("e.ror", {"ignore_case": True}, False),
        ("e.ror", {"ignore_case": True, "regex": True}, True),
        ("E.ror: ü$", {"regex": True}, True),
        ("Ü", {"ignore_case": True}, True),
        ("Ü", {}, False),
        (r"^Big (?=Error)", {"regex": True}, True),
        (r"\d", {"regex": True}, False),
        ("(", {}, False),
    ],
)
def test_kinds_of_patterns(pattern: str, kind: dict[str, bool], found: bool, tmp_path: Path) -> None:
    content = opened(tmp_path / "log", b"first\n" + "Big Error: ü".encode() + b"\nlast\n")
    assert look(content, pattern, 0, **kind) == (6 if found else None)


def test_colours_do_not_hide_a_match(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", b"x\n\x1b[31mCUDA\x1b[0m error\n")
    assert look(content, "CUDA error", 0) == 2


def test_refreshes_that_are_not_shown_are_searched_too(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", b"x\n 0%\rOSError: disk\r50%\n")
    assert look(content, "OSError", 0) == 2


@pytest.mark.parametrize("forwards", [True, False])
def test_a_search_goes_on_where_time_was_up(forwards: bool, tmp_path: Path) -> None:
    data = b"one\n" * 50_000 + b"here\n" + b"two\n" * 50_000
    content = opened(tmp_path / "log", data)
    wanted = Filter(plain, None, matcher("here"))
    found = search(content, 0 if forwards else len(data), wanted, forwards=forwards, patience=0.0)
    calls = 1
    while found.offset is None and found.next is not None:
        found = search(content, found.next, wanted, forwards=forwards, patience=0.0)
        calls += 1
    assert found == Found(200_000, None, 0)
    assert calls > 2


def test_a_search_to_no_avail_ends(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", b"x\n" * 100_000)
    for forwards in (True, False):
        place: int | None = 0 if forwards else 200_000
        calls = 0
        while place is not None:
            found = search(content, place, Filter(plain, None, matcher("y")), forwards=forwards, patience=0.0)
            assert found.offset is None
            place = found.next
            calls += 1
        assert calls < 10


@pytest.mark.parametrize("pattern", ["(", "*x", "[z-a]", "(?P<n>x)(?P<n>y)", "a{99999999999999}"])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(Refused, match="not a regular expression") as refused:
        matcher(pattern, regex=True)
    assert refused.value.try_


@pytest.mark.parametrize("pattern", ["", "x" * 1001])
def test_an_empty_or_endless_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Refused):
        matcher(pattern)


def test_an_expression_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_module, "PATIENCE_S", 0.2)
    content = opened(tmp_path / "log", b"a" * 60 + b"!\n")
    looking = match_module.Expression("(a+)+$", ignore_case=False)
    with pytest.raises(Refused, match="the search was stopped"):
        search(content, 0, Filter(plain, None, looking), patience=LONG)
    assert looking._child is None
    monkeypatch.undo()
    assert look(content, "a!", 0, regex=True) == 0


def test_a_search_whose_python_does_not_start_blames_no_expression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    content = opened(tmp_path / "log", b"a!\n")
    with pytest.raises(Refused, match="the search could not begin"):
        look(content, "a!", 0, regex=True)


# ------------------------------------------------------------------------------------------------------ anything at all


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes_never_raise(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    pieces = [
        b"\n",
        b"\r",
        b"\x1b[31m",
        b"\0",
        b"[2025-11-29 17:36:46 TP1] ",
        b"[rank9999999]:",
        b"|",
        "⟨\u202e".encode(),
    ]
    data = b"".join(chance.choice([*pieces, chance.randbytes(chance.randrange(40))]) for _ in range(4000))
    content = opened(tmp_path / "log", data)
    built = indexed(content)
    for _ in range(25):
        at = chance.choice([chance.randrange(len(data)), "end", 0])
        wanted = Filter(owner_of, chance.choice([None, "TP1"]), chance.choice([None, matcher("TP", ignore_case=True)]))
        found = window(content, built, at, chance.randrange(30), chance.randrange(30), wanted, LONG)
        assert all(line.text.isprintable() for line in found.lines)
        assert [line.offset for line in found.lines] == sorted({line.offset for line in found.lines})
        for line in found.lines:
            assert line.number == data.count(b"\n", 0, line.offset) + 1
        search(content, chance.randrange(len(data)), wanted, forwards=chance.random() < 0.5)


def test_secrets_in_the_log_are_not_sent(tmp_path: Path) -> None:
    data = b"[2026-11-29 17:04:10] server_args={'model_path': 'm', 'api_key': 'sesame-open'}\nplain\n"
    found = texts(window(opened(tmp_path / "log", data), None, 0, 0, 10, ALL))
    assert "sesame" not in found[0]
    assert "'model_path': 'm'" in found[0]
    assert found[1] == "plain"
