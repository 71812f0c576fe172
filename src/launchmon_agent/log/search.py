"""The next line that matches, forwards or backwards, a bounded time at a call."""

from __future__ import annotations

import time
from dataclasses import dataclass

from launchmon_agent.log.content import Content
from launchmon_agent.log.lines import backward, forward
from launchmon_agent.log.window import PATIENCE_S, Filter


@dataclass(frozen=True)
class Found:
    """``offset`` of the line, or None. Then ``next`` is where to search on, or None: there is nothing."""

    offset: int | None
    next: int | None
    generation: int


def search(
    content: Content, start: int, wanted: Filter, *, forwards: bool = True, patience: float = PATIENCE_S
) -> Found:
    """The first wanted line that begins at or after ``start``; the last that begins before it when not ``forwards``."""
    size = content.size()
    start = min(max(start, content.floor), size)
    line = content.line_start(start)
    edge = line if line == start else content.line_end(line, size)
    deadline = time.monotonic() + patience
    for block in forward(content, edge, size) if forwards else backward(content, edge):
        found = wanted.select(content, block)
        if found:
            return Found(found[0 if forwards else -1][0].start, None, content.generation)
        came_to = block.end if forwards else block.start
        if time.monotonic() >= deadline:
            over = came_to >= size if forwards else came_to <= content.floor
            return Found(None, None if over else came_to, content.generation)
    return Found(None, None, content.generation)
