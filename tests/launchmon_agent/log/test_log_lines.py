"""Where lines begin and end: every reader must agree with a plain split, and with the others where lines are broken."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from launchmon_agent.log import content as content_module
from launchmon_agent.log import lines as lines_module
from launchmon_agent.log.content import Content
from launchmon_agent.log.lines import RawLine, backward, forward


def opened(path: Path, data: bytes) -> Content:
    path.write_bytes(data)
    return Content(os.open(path, os.O_RDONLY))


def forwards(content: Content, start: int = 0) -> list[RawLine]:
    return [line for block in forward(content, start, content.size()) for line in block.lines()]


def backwards(content: Content, stop: int | None = None) -> list[RawLine]:
    blocks = list(backward(content, content.size() if stop is None else stop))
    return [line for block in reversed(blocks) for line in block.lines()]


def noise(chance: random.Random, length: int) -> bytes:
    """Lines of very different lengths: none, short, longer than a head, longer than a block, unfinished."""
    out = b""
    while len(out) < length:
        out += chance.randbytes(chance.choice((0, 1, 7, 40, 90, 300))).replace(b"\n", b"x")
        out += b"\n" * chance.choice((0, 1, 1, 1, 2, 5))
    return out


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "PIECE", 8)
    monkeypatch.setattr(content_module, "BLOCK", 64)
    monkeypatch.setattr(lines_module, "BLOCK", 32)
    monkeypatch.setattr(lines_module, "HEAD", 16)


@pytest.mark.parametrize("seed", range(30))
def test_both_directions_find_the_lines_of_a_plain_split(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_module, "PIECE", 8)
    monkeypatch.setattr(lines_module, "BLOCK", 32)
    monkeypatch.setattr(lines_module, "HEAD", 16)
    data = noise(random.Random(seed), 2000)
    content = opened(tmp_path / "log", data)
    expected = [part + b"\n" for part in data.split(b"\n")[:-1]] + (
        [data.rpartition(b"\n")[2]] if data[-1:] != b"\n" else []
    )
    for found in (forwards(content), backwards(content)):
        assert [data[line.start : line.end] for line in found] == expected
        for line, whole in zip(found, expected, strict=True):
            text = whole.rstrip(b"\n") if line.ended else whole
            assert line.ended == whole.endswith(b"\n")
            assert line.head == text[:16]
            assert line.tail == (text[-16:] if len(text) > 16 else b"")
            assert line.length == len(text)


@pytest.mark.parametrize("seed", range(30))
def test_broken_lines_are_the_same_from_everywhere(seed: int, tmp_path: Path, small: None) -> None:
    """Blocks of 64 bytes: many lines are broken, and the breaks must not depend on where reading began."""
    data = noise(random.Random(seed), 3000)
    content = opened(tmp_path / "log", data)
    all_of_them = forwards(content)
    assert all_of_them == backwards(content)
    assert [line.start for line in all_of_them] == [0] + [line.end for line in all_of_them[:-1]]
    assert all(line.end - line.start <= 128 for line in all_of_them)
    for line in all_of_them:
        for offset in {line.start, (line.start + line.end) // 2, line.end - 1}:
            assert content.line_start(offset) == line.start
        assert content.line_end(line.start, len(data)) == line.end
    middle = all_of_them[len(all_of_them) // 2].start
    assert forwards(content, middle) == all_of_them[len(all_of_them) // 2 :]
    assert backwards(content, middle) == all_of_them[: len(all_of_them) // 2]


def test_a_hole_at_the_start_is_passed_over(tmp_path: Path) -> None:
    """What a truncation leaves under a writer that does not append."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(3 << 30)
        file.seek(3 << 30)
        file.write(b"\nfirst\nsecond\n")
    content = Content(os.open(path, os.O_RDONLY))
    assert content.floor in (0, 3 << 30)  # 0 where the file system knows no holes
    if content.floor:
        assert [line.head for line in forwards(content, 0)] == [b"", b"first", b"second"]
        assert [line.head for line in backwards(content)] == [b"", b"first", b"second"]


def test_a_line_of_many_megabytes_gives_only_its_ends(tmp_path: Path) -> None:
    middle = b"x" * (10 << 20)
    content = opened(tmp_path / "log", b"before\nBEGIN" + middle + b"END\nafter\n")
    before, long, after = forwards(content)
    assert (before.head, after.head) == (b"before", b"after")
    assert long.head.startswith(b"BEGIN") and long.tail.endswith(b"END")
    assert len(long.head) + len(long.tail) <= 2 * lines_module.HEAD
    assert [before, long, after] == backwards(content)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain", b"plain"),
        (b"", b""),
        (b"\r 0%\r50%\r100%", b"100%"),
        (b"\r 0%\r50%\r", b"50%"),
        (b"50%\r   ", b"50%"),
        (b"windows\r", b"windows"),
        (b"\r\r\r", b""),
    ],
)
def test_the_last_refresh_that_is_not_blank_is_shown(line: bytes, shown: bytes) -> None:
    assert RawLine(0, len(line), line, b"", False).shown == (shown, 0)


def test_of_a_very_long_progress_bar_the_newest_refresh_is_shown(tmp_path: Path) -> None:
    bar = b"".join(b"\rLoading %d/1000000" % n for n in range(200_000))
    content = opened(tmp_path / "log", bar)
    (line,) = forwards(content)
    assert line.shown == (b"Loading 199999/1000000", 0)
    assert line.searched.startswith(b"\rLoading 0/") and line.searched.endswith(b"Loading 199999/1000000")


def test_without_a_file_there_are_no_lines() -> None:
    nothing = Content.nothing()
    assert not nothing
    assert (nothing.size(), nothing.read_at(0, 10), forwards(nothing), backwards(nothing)) == (0, b"", [], [])


def test_a_reader_keeps_its_file_after_the_owner_has_let_go(tmp_path: Path) -> None:
    content = opened(tmp_path / "log", b"kept\n")
    reader = content
    del content
    (tmp_path / "log").unlink()
    assert reader.read_at(0, 100) == b"kept\n"
