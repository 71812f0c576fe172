"""A million generated lines through the log engine as those of a run are: written, followed, looked at, drawn.

Nothing in them is obeyed, nothing crashes, no line is lost, and no row is wider than was counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from rich.cells import cell_len

from launchmon.tui.log_buffer import ScreenRow
from launchmon.tui.log_fold import Shown
from launchmon.tui.panels.log_rows import Marks, log_row
from launchmon.tui.widgets.lines import merged, row_width, safe
from launchmon_agent import codec, events
from launchmon_agent.log.display import LIMIT, raw_text_of, text_of
from launchmon_agent.log.engine import LogEngine
from launchmon_agent.log.level import LEVELS, level_of, may_tell
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.log.owner import owner_of
from launchmon_agent.log.sources import FileSource
from launchmon_agent.log.window import Line
from launchmon_agent.model import RunModel
from tests.support.hostile_text import BOUNDED, LINE, OBEYED, cells, log

LINES = 1_000_000
PARTS = 4
CHUNK = 25_000
SCREEN = 500
WIDTH = 80
DRAWN = 20
"""One line of so many is drawn, which costs ten times as much as the rest."""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_million_generated_lines(part: int, tmp_path: Path) -> None:
    chance = random.Random(part)
    path = tmp_path / "log"
    path.touch()
    engine = LogEngine(FileSource(str(path)), MarkScanner(), owner_of)
    kinds: Counter[str] = Counter()
    size = 0
    now = 1764439200.0
    for number in range(LINES // PARTS // CHUNK):
        written = log(chance, CHUNK, overlong=300_000 if number == 0 else 0)
        with path.open("ab") as file:
            file.write(written)
        found = polled(engine, now + number)
        check_texts([str(event) for event in found])
        assert [codec.decode(codec.encode(event)) for event in found] == found
        kinds.update(event.kind for event in found)
        lines = list(looked_at(engine, number * CHUNK + 1))
        check_texts([line.text for line in lines])
        for line in lines[::DRAWN]:
            check_drawn(line)
        size += len(written)
    assert {"mark", "error", "progress", "log"} <= set(kinds)
    assert engine.window("end").size == size
    engine.close()


def polled(engine: LogEngine, now: float) -> list[events.Event]:
    """All that is new in the log."""
    found = engine.poll(now)
    while engine.behind:
        found += engine.poll(now)
    return found


def looked_at(engine: LogEngine, first: int) -> Iterator[Line]:
    """A quarter of the chunk that begins with the line of that number, as if somebody scrolled in great steps."""
    for number in range(first, first + CHUNK, 4 * SCREEN):
        window = engine.window(engine.place(line=number).offset, 0, SCREEN)
        assert [line.number for line in window.lines] == list(range(number, number + SCREEN))
        yield from window.lines


def check_texts(texts: list[str]) -> None:
    """Nothing to obey, and no character of more cells than are counted for it."""
    joined = " ".join(texts)
    bad = OBEYED.search(joined)
    assert bad is None, joined[max(0, bad.start() - 80) : bad.end() + 20]
    assert [one for one in set(joined) if not 0 <= cells(one) <= cell_len(one)] == []


def check_drawn(line: Line) -> None:
    row = log_row(ScreenRow(Shown(line), line.text, True, line.cut), WIDTH, Marks())
    drawn = "".join(safe(text) for text, _ in merged(row))
    assert sum(map(cells, drawn)) <= cell_len(drawn) == row_width(row) <= WIDTH


@given(LINE)
@BOUNDED
def test_a_line_as_text(data: bytes) -> None:
    for make in (text_of, raw_text_of):
        text, cut = make(data)
        check_texts([text])
        assert sum(map(cells, text)) <= cell_len(text) and len(text) <= LIMIT and not cut
        short, was_cut = make(data, limit=10)
        assert was_cut or short == text
        assert len(text) <= 10 or (was_cut and len(short) <= 10 + len(" … +99999 bytes"))


@given(LINE)
@BOUNDED
def test_a_quick_look_for_a_level_overlooks_none(data: bytes) -> None:
    for line in data.split(b"\n"):
        level = level_of(line)
        assert level is None or level in LEVELS
        if level in ("warning", "error"):
            assert may_tell(data, level)


HUGE = b"9" * 5000


@pytest.mark.parametrize(
    "line",
    [
        b"[rank%s]: Load weight begin.",
        b"[gpu=%s] Load weight begin.",
        b"[gpu_id=%s] x",
        b"[2026-11-29 16:10:00 TP%s] Load weight begin. avail mem=90.00 GB",
        b"[2026-11-29 16:10:00 TP0] Load weight end. elapsed=%s s, type=X, avail mem=%s.0 GB",
        b"[2026-11-29 16:10:00] server_args=ServerArgs(model_path='/m', tp_size=%s, port=%s, x={[]: 1})",
        b"Loading safetensors checkpoint shards: %s%% Completed | %s/%s [00:01<%s:00,  %sit/s]",
        b"Loading safetensors checkpoint shards: 5%% Completed | 1/3 [00:01<%s:%s,  1.50it/s]",
    ],
)
@pytest.mark.parametrize("digits", [400, 4000, 5000])
def test_numbers_of_thousands_of_digits(line: bytes, digits: int) -> None:
    data = line.replace(b"%s", HUGE[:digits]).replace(b"%%", b"%") + b"\n"
    scanner, model = MarkScanner(), RunModel()
    model.fold(events.Run(1.0, "r"))
    for event in scanner.feed(0, data, 1764439200.0):
        model.fold(codec.decode(codec.encode(event)))
    scanner.last_lines()
    model.phases.rail(1764439300.0)
