"""The line index against counting by hand, with both counters and odd sizes of everything."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from launchmon_agent.log import count, index
from launchmon_agent.log.content import Content
from launchmon_agent.log.count import find_wc
from launchmon_agent.log.index import LineIndex

WC = find_wc()
COUNTERS = [
    pytest.param(None, id="python"),
    pytest.param(WC, id="wc", marks=pytest.mark.skipif(WC is None, reason="no wc")),
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SEGMENT", 4096)
    monkeypatch.setattr(index, "STRIDE", 256)
    monkeypatch.setattr(index, "KEPT_SEGMENTS", 2)
    monkeypatch.setattr(index, "SMALL", 0)
    monkeypatch.setattr(index, "PIECE", 64)
    monkeypatch.setattr(count, "PIECE", 100)


def noise(seed: int, length: int) -> bytes:
    chance = random.Random(seed)
    return bytes(chance.choices(b"\nabcdef \r\0", weights=(chance.choice((1, 5, 30)), *[3] * 9), k=length))


def opened(path: Path, data: bytes) -> Content:
    path.write_bytes(data)
    return Content(os.open(path, os.O_RDONLY))


def finish(built: LineIndex, budget: int) -> None:
    for _ in range(100_000):
        if not built.step(budget):
            return
    raise AssertionError("the index never came to the end")


def check(built: LineIndex, data: bytes, seed: int) -> None:
    chance = random.Random(seed)
    starts = [0] + [at + 1 for at, byte in enumerate(data) if byte == 10]
    assert (built.indexed, built.lines) == (len(data), data.count(b"\n"))
    for offset in [0, len(data), *(chance.randrange(len(data)) for _ in range(60))]:
        assert built.line_at(offset) == data.count(b"\n", 0, offset)
    for line in {0, len(starts) - 1, *(chance.randrange(len(starts)) for _ in range(60))}:
        assert built.offset_of(line) == starts[line]
    assert built.offset_of(len(starts)) is None
    assert built.offset_of(-1) is None
    assert built.line_at(len(data) + 1) is None
    assert built.line_at(-1) is None


@pytest.mark.parametrize("wc", COUNTERS)
@pytest.mark.parametrize(
    ("seed", "length", "budget"), [(1, 40_000, 1000), (2, 4096 * 3, 4096), (3, 4097, 10**9), (4, 20_001, 777)]
)
def test_it_knows_every_line(wc: str | None, seed: int, length: int, budget: int, tmp_path: Path) -> None:
    data = noise(seed, length)
    built = LineIndex(opened(tmp_path / "log", data), wc)
    finish(built, budget)
    check(built, data, seed)


@pytest.mark.parametrize("wc", COUNTERS)
@pytest.mark.parametrize("seed", range(4))
def test_it_takes_what_the_follower_read_and_reads_the_rest(wc: str | None, seed: int, tmp_path: Path) -> None:
    """Growth in odd pieces; some are handed over, some not, some overlap what is indexed."""
    chance = random.Random(seed)
    path = tmp_path / "log"
    built = LineIndex(opened(path, b""), wc)
    data = b""
    for _ in range(60):
        part = noise(chance.randrange(1000), chance.randrange(1, 1500))
        with path.open("ab") as file:
            file.write(part)
        if chance.random() < 0.7:
            back = chance.randrange(0, min(len(data), 50) + 1)
            built.extend(len(data) - back, (data + part)[len(data) - back :])
        data += part
        if chance.random() < 0.5:
            built.step(chance.choice((1, 300, 10_000)))
        known = built.indexed
        assert built.lines == data.count(b"\n", 0, known)
        assert built.line_at(known // 2) == data.count(b"\n", 0, known // 2)
    finish(built, 5000)
    check(built, data, seed)


def test_nothing_is_read_twice_while_the_follower_hands_everything_over(tmp_path: Path) -> None:
    data = noise(5, 30_000)
    built = LineIndex(opened(tmp_path / "log", data), None)
    for at in range(0, len(data), 700):
        built.extend(at, data[at : at + 700])
    assert (built.indexed, built.step(1)) == (len(data), False)
    check(built, data, 5)


def test_its_memory_does_not_grow_with_the_lines_asked_for(tmp_path: Path) -> None:
    data = noise(6, 100_000)
    built = LineIndex(opened(tmp_path / "log", data), None)
    finish(built, 10**6)
    check(built, data, 6)
    assert len(built._fine) <= 2
    assert len(built._before) == 100_000 // 4096 + 1


def test_a_wc_that_fails_is_replaced_by_python(tmp_path: Path) -> None:
    data = noise(7, 20_000)
    for broken in ("/bin/false", str(tmp_path / "missing")):
        built = LineIndex(opened(tmp_path / "log", data), broken)
        finish(built, 3000)
        check(built, data, 7)


def test_a_file_truncated_while_it_is_indexed_ends_the_work(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for wc in (None, WC):
        built = LineIndex(opened(path, noise(8, 20_000)), wc)
        built.step(1000)
        os.truncate(path, 500)
        finish(built, 1000)
        built.close()
        assert built.indexed <= 20_000


def test_a_hole_at_the_start_holds_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.seek(1 << 20)
        file.write(b"one\ntwo\nthree")
    content = Content(os.open(path, os.O_RDONLY))
    built = LineIndex(content, None)
    finish(built, 10**6)
    assert built.lines == 2
    assert built.offset_of(0) == content.floor
    assert built.offset_of(1) == (1 << 20) + 4
    assert built.line_at((1 << 20) + 9) == 2
