"""Filters by level and text, counts in slices, and the matchers that are kept between them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.log import lines as lines_module
from launchmon_agent.log.content import Content
from launchmon_agent.log.filter import Filter
from launchmon_agent.log.level import LEVELS, inherited, level_of
from launchmon_agent.log.match import Matchers, matcher
from launchmon_agent.log.only import Only
from launchmon_agent.log.owner import owner_of
from launchmon_agent.log.search import Counted, count, search
from launchmon_agent.log.window import window

LONG = 60.0

TRACEBACK = """\
[2026-01-01 00:00:01 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):
  File x, line {number}
    raise ValueError
ValueError: {number}
"""

RECORDS = (
    "[2026-01-01 00:00:01 TP{rank}] Decode batch, #token: {number}",
    "[2026-01-01 00:00:01 TP{rank}] Load weight {number}",
    TRACEBACK,
    "/opt/awq.py:53: UserWarning: {number}\n  warnings.warn(",
    "[2026-01-01 00:00:01] Fail to set {number}",
    "bare {number}",
)


def opened(path: Path, text: str) -> Content:
    path.write_text(text)
    return Content(os.open(path, os.O_RDONLY))


def random_log(seed: int, records: int = 400) -> str:
    chance = random.Random(seed)
    return "".join(
        chance.choice(RECORDS).format(rank=chance.randrange(2), number=number) + "\n" for number in range(records)
    )


def leveled(text: str) -> Iterator[tuple[str, str]]:
    """The lines and their levels, one after the other: the plain way."""
    level = "info"
    for line in text.splitlines():
        own = level_of(line.encode())
        level = inherited(level, line.encode()) if own is None else own
        yield line, level


def walk(content: Content, wanted: Filter) -> list[tuple[str, str]]:
    """All wanted lines, by windows that follow each other."""
    found: list[tuple[str, str]] = []
    at, at_end = 0, False
    while not at_end:
        part = window(content, None, at, 0, 7, wanted, LONG)
        found += [(line.text, line.level) for line in part.lines]
        at, at_end = part.end, part.at_end
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("level", ["debug", "warning", "error"])
def test_the_level_filter_agrees_with_a_plain_loop(
    level: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 400)
    text = random_log(seed)
    least = LEVELS.index(level)
    expected = [(line, own) for line, own in leveled(text) if LEVELS.index(own) >= least]
    assert walk(opened(tmp_path / "log", text), Filter(owner_of, level=level)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_counts_agree_with_walking(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 500)
    content = opened(tmp_path / "log", random_log(seed))
    for rank in (None, "TP1"):
        for level in (None, "warning"):
            for only in (None, "a"):
                for regex in (False, True):
                    narrow = None if only is None else matcher(only)
                    looking = matcher("1[0-9]" if regex else "WEIGHT 1", regex=regex, ignore_case=True)
                    wanted = Filter(owner_of, rank, looking, level, narrow)
                    try:
                        counted = count(content, 0, None, wanted, LONG)
                        assert counted.count == len(walk(content, wanted))
                        assert (counted.next, counted.done, counted.unfinished) == (content.size(), True, 0)
                    finally:
                        looking.close()


def test_a_count_goes_on_slice_by_slice(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", "one\nhit\n" * 50_000)
    wanted = Filter(owner_of, matcher=matcher("hit"))
    at, found, slices, done = 0, 0, 0, False
    while not done:
        part = count(content, at, None, wanted, patience=0.0)
        at, done = part.next, part.done
        found += part.count
        slices += 1
    assert (found, at) == (50_000, content.size())
    assert slices > 3


def test_a_count_up_to_a_place(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", "hit\n" * 100)
    wanted = Filter(owner_of, matcher=matcher("hit"))
    for stop in (80, 81, 83):
        assert count(content, 40, stop, wanted, LONG) == Counted(10, 80, True, 0, 0)
    assert count(content, 40, 10, wanted, LONG) == Counted(0, 40, True, 0, 0)


def test_an_unfinished_last_line_is_counted_apart(tmp_path: Path) -> None:
    path = tmp_path / "log"
    content = opened(path, "hit\nmiss\na hi")
    wanted = Filter(owner_of, matcher=matcher("hi"))
    first = count(content, 0, None, wanted, LONG)
    assert first == Counted(1, 9, True, 1, 0)
    with path.open("a") as file:
        file.write("t\nhit\n")
    assert count(content, first.next, None, wanted, LONG) == Counted(2, 19, True, 0, 0)


def test_a_count_of_nothing(tmp_path: Path) -> None:
    wanted = Filter(owner_of, matcher=matcher("x"))
    assert count(opened(tmp_path / "log", ""), 0, None, wanted) == Counted(0, 0, True, 0, 0)
    assert count(Content.nothing(3), 0, None, wanted) == Counted(0, 0, True, 0, 3)


def test_long_and_coloured_lines_are_counted_as_they_are_searched(tmp_path: Path) -> None:
    text = "x" * 20_000 + "hit\n" + "\x1b[31mh\x1b[0mit\n" + "hit hit\n" + "z" * 100_000 + " 0%\rhit\n"
    content = opened(tmp_path / "log", text)
    wanted = Filter(owner_of, matcher=matcher("hit"))
    counted = count(content, 0, None, wanted, LONG).count
    places, at = 0, 0
    while (found := search(content, at, wanted, patience=LONG)).offset is not None:
        places += 1
        at = found.offset + 1
    assert counted == places == 3


def test_both_texts_must_be_in_a_line(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", "a\nb\nab\nba c\n")
    assert [text for text, _ in walk(content, Filter(owner_of, matcher=matcher("a"), only=matcher("b")))] == [
        "ab",
        "ba c",
    ]


def test_raw_lines_show_everything(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", " 0%\r 50%\r\x1b[31mdone\x1b[0m\n")
    (tidy,) = window(content, None, 0, 0, 1, Filter(owner_of)).lines
    (raw,) = window(content, None, 0, 0, 1, Filter(owner_of), raw=True).lines
    assert tidy.text == "done"
    assert raw.text == " 0%␍ 50%␍␛[31mdone␛[0m"


def test_matchers_are_kept_for_the_next_slice_and_let_go() -> None:
    matchers = Matchers(keep=2)
    first = matchers.get("a+", regex=True, ignore_case=False)
    assert list(first.matching([b"aa", b"b"])) == [True, False]
    assert matchers.get("a+", regex=True, ignore_case=False) is first
    assert matchers.get("a+", regex=True, ignore_case=True) is not first
    matchers.get("b", regex=False, ignore_case=False)
    assert matchers.get("a+", regex=True, ignore_case=False) is not first
    matchers.close()


def test_what_is_asked_for_is_checked() -> None:
    assert Only.of({"rank": "TP1", "level": "error", "only": "x", "only_regex": True}) == Only(
        "TP1", "error", "x", True
    )
    assert Only.of({}).all and not Only.of({"level": "warning"}).all
    with pytest.raises(Refused, match="is no level"):
        Only.of({"level": "loud"})
    with pytest.raises(Refused, match="not filtered by colour"):
        Only.of({"colour": "red"})
