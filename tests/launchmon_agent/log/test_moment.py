"""Times in a log, against a plain look through its lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.log import moment as moment_module
from launchmon_agent.log.content import Content
from launchmon_agent.log.moment import find, is_moment


def opened(path: Path, text: str) -> Content:
    path.write_text(text)
    return Content(os.open(path, os.O_RDONLY))


def stamp(second: int) -> str:
    """From 2026-11-28 23:00:00 on."""
    day, clock = divmod(23 * 3600 + second, 86400)
    return f"2026-11-{28 + day} {clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}"


def log(seconds: int = 7200, every: int = 1, dated: bool = True) -> str:
    """Two hours across midnight, with lines without a stamp in between."""
    lines = []
    for second in range(0, seconds, every):
        text = stamp(second) if dated else stamp(second)[11:]
        lines.append(f"[{text} TP{second % 2}] second {second}\n  goes on\n")
    return "".join(lines)


def at(content: Content, offset: int) -> str:
    return content.read_at(offset, 200).split(b"\n")[0].decode()


@pytest.mark.parametrize("chunk", [200, 64 * 1024])
@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize(
    ("typed", "second"),
    [
        ("23:00", 0),
        ("23:10:07", 607),
        ("0:30", 5400),
        ("00:59:59", 7199),
        ("-5m", 7199 - 300),
        ("-10s", 7189),
        ("+90s", 690),
        ("+1h", 4200),
        ("22:00", 0),  # of the evening before: the first line comes after it
    ],
)
def test_the_first_line_of_a_time(
    typed: str, second: int, dated: bool, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moment_module, "CHUNK", chunk)
    text = log(dated=dated)
    content = opened(tmp_path / "log", text)
    launch = text.index("second 600\n")  # an older launch comes before it
    launch = text.rindex("[", 0, launch)
    assert f"second {second}" == at(content, find(content, typed, launch)).split("] ")[1]


@pytest.mark.parametrize(("typed", "second"), [("2026-11-29 00:00:10", 3610), ("2026-11-28T23:30", 1800)])
def test_a_time_with_its_date(typed: str, second: int, tmp_path: Path) -> None:
    content = opened(tmp_path / "log", log())
    assert at(content, find(content, typed, 0)).endswith(f"second {second}")


def test_between_two_lines_the_later_counts(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", log(every=60))
    assert at(content, find(content, "23:10:30", 0)).endswith("second 660")


def test_dateless_lines_of_others_are_passed_over(tmp_path: Path) -> None:
    text = log(100).replace("  goes on\n", "[16:10:02] /project/cpp/x.cc:1: Warning: x\n")
    content = opened(tmp_path / "log", text)
    assert at(content, find(content, "23:00:50", 0)).endswith("second 50")


def test_stamps_slightly_out_of_order(tmp_path: Path) -> None:
    lines = log(600).splitlines(keepends=True)
    for place in range(0, len(lines) - 4, 10):
        lines[place], lines[place + 2] = lines[place + 2], lines[place]
    content = opened(tmp_path / "log", "".join(lines))
    found = int(at(content, find(content, "23:05:00", 0)).split("second ")[1])
    assert abs(found - 300) <= 2


@pytest.mark.parametrize(
    ("text", "typed", "says"),
    [
        (log(10), "noon", "is no time"),
        (log(10), "2026-11-30 12:00", "nothing at 2026-11-30 12:00"),
        ("no stamps\n" * 10, "12:00", "has no time stamps"),
        ("", "12:00", "has no time stamps"),
    ],
)
def test_what_is_not_there_is_refused(text: str, typed: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=says):
        find(opened(tmp_path / "log", text), typed, 0)


def test_a_long_stretch_without_stamps_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moment_module, "PATIENCE_S", -1.0)
    content = opened(tmp_path / "log", log(10) + "bare\n" * 100_000)
    with pytest.raises(Refused, match="the time was not found"):
        find(content, "23:00:05", 0)


@pytest.mark.parametrize("text", ["12:00", "1:02:03", "2026-01-01 12:00", "2026-01-01T12:00:01.5", "-5m", "+1.5h"])
def test_what_a_time_looks_like(text: str) -> None:
    assert is_moment(text)


@pytest.mark.parametrize("text", ["12", "5m", "-5", "weights", "12:00 tomorrow", ""])
def test_what_a_time_does_not_look_like(text: str) -> None:
    assert not is_moment(text)
