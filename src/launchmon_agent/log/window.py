"""Windows of lines by request: some before an offset, some from it on, of all ranks or of one, filtered or not.

A window depends on offsets only, so it is there at once however large the log is; the index adds line numbers where it
has come to. With a filter more is read than is shown, so every request has a limit of time and says how far it came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from launchmon_agent.log.content import Content
from launchmon_agent.log.display import LIMIT, raw_text_of, text_of
from launchmon_agent.log.filter import Filter, Owned, levels
from launchmon_agent.log.index import LineIndex
from launchmon_agent.log.lines import RawLine, backward, forward
from launchmon_agent.sglang.secrets import redact_text

MOST_LINES = 1000
"""In one window, before and after together at most twice that."""

PATIENCE_S = 0.25
"""Seconds after which a request answers with what it has."""


@dataclass(frozen=True)
class Line:
    offset: int
    number: int | None  # from 1; None beyond the part that is indexed
    text: str  # safe to show, cut to a length
    rank: str | None  # whose it is; of a continuation line the rank of the line that it continues
    cut: bool  # the text is not all of the line, and says so at its end
    level: str = "info"  # error | warning | info | debug; of a continuation line that of its record


@dataclass(frozen=True)
class Window:
    """``start`` … ``end`` is what was looked at: further windows go on from there, also when nothing was found."""

    lines: tuple[Line, ...]
    start: int
    end: int
    at_start: bool  # nothing lies before
    at_end: bool  # nothing lies behind, at ``size``
    more: bool  # time was up before there were as many lines as asked for
    size: int
    generation: int


def window(
    content: Content,
    index: LineIndex | None,
    at: int | str,
    before: int,
    after: int,
    wanted: Filter,
    patience: float = PATIENCE_S,
    raw: bool = False,
) -> Window:
    """``before`` lines that end at or before ``at``, and ``after`` lines from the one that holds ``at`` on.

    ``at`` is an offset in bytes, anywhere in a line, or ``"end"``. ``raw`` gives lines as they lie in the file: with
    all refreshes of a progress bar, colours and carriage returns as visible text.
    """
    size = content.size()
    if isinstance(at, str):
        anchor = size
    else:
        anchor = content.line_start(min(max(at, content.floor), size))
    deadline = time.monotonic() + patience
    before, after = min(max(0, before), MOST_LINES), min(max(0, after), MOST_LINES)
    earlier, start = _earlier(content, anchor, before, wanted, deadline)
    later, end = _later(content, anchor, size, after, wanted, deadline)
    at_start, at_end = start <= content.floor, end >= size
    return Window(
        lines=tuple(_finish(content, earlier + later, index, raw=raw)),
        start=start,
        end=end,
        at_start=at_start,
        at_end=at_end,
        more=(len(earlier) < before and not at_start) or (len(later) < after and not at_end),
        size=size,
        generation=content.generation,
    )


def _earlier(content: Content, anchor: int, count: int, wanted: Filter, deadline: float) -> tuple[list[Owned], int]:
    """Up to ``count`` wanted lines before ``anchor``, and where the search for them came to."""
    parts: list[list[Owned]] = []
    start, missing = anchor, count
    for block in backward(content, anchor) if count else ():
        if wanted.takes_all:
            found = list(wanted.owned(content, block.lines()[-missing:]))
        else:
            found = wanted.select(content, block)[-missing:]
        parts.append(found)
        missing -= len(found)
        if not missing:
            start = found[0][0].start
            break
        start = block.start
        if time.monotonic() >= deadline:
            break
    return [line for part in reversed(parts) for line in part], start


def _later(
    content: Content, anchor: int, size: int, count: int, wanted: Filter, deadline: float
) -> tuple[list[Owned], int]:
    """Up to ``count`` wanted lines from ``anchor`` on, and where the search for them came to."""
    lines: list[Owned] = []
    end = anchor
    for block in forward(content, anchor, size) if count else ():
        missing = count - len(lines)
        if wanted.takes_all:
            found = list(wanted.owned(content, block.lines()[:missing]))
        else:
            found = wanted.select(content, block)[:missing]
        lines += found
        if len(lines) == count:
            end = lines[-1][0].end
            break
        end = block.end
        if time.monotonic() >= deadline:
            break
    return lines, end


def _finish(content: Content, lines: list[Owned], index: LineIndex | None, *, raw: bool) -> Iterator[Line]:
    number: int | None = None
    previous: RawLine | None = None
    for (line, owner), level in zip(lines, levels(content, [line for line, _ in lines]), strict=True):
        if previous is not None and number is not None and previous.end == line.start:
            number += previous.ended
        else:
            number = index.line_at(line.start) if index is not None else None
        previous = line
        if raw:
            text, cut = raw_text_of(line.head, line.length - len(line.head), limit=LIMIT)
        else:
            text, cut = text_of(*line.shown, limit=LIMIT)
        yield Line(line.start, None if number is None else number + 1, redact_text(text), owner, cut, level)
