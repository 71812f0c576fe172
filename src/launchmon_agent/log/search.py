"""The next line that matches, forwards or backwards, and how many there are, a bounded time at a call."""

from __future__ import annotations

import time
from dataclasses import dataclass

from launchmon_agent.log.content import Content
from launchmon_agent.log.filter import Filter
from launchmon_agent.log.lines import backward, forward

SLICE_S = 0.1
"""Seconds after which a slice of a search or a count answers with how far it came."""


@dataclass(frozen=True)
class Found:
    """``offset`` of the line, or None. Then ``next`` is where to search on, or None: there is nothing."""

    offset: int | None
    next: int | None
    generation: int


def search(content: Content, start: int, wanted: Filter, *, forwards: bool = True, patience: float = SLICE_S) -> Found:
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


@dataclass(frozen=True)
class Counted:
    """``count`` wanted lines begin before ``next``, from where counting goes on; ``done``: there was no more to count.

    ``unfinished`` is 1 where a last line without a newline is wanted as well: it is counted again when it has grown.
    """

    count: int
    next: int
    done: bool
    unfinished: int
    generation: int


def count(content: Content, start: int, stop: int | None, wanted: Filter, patience: float = SLICE_S) -> Counted:
    """Count the wanted lines from the line start ``start`` up to the line that holds ``stop``, or to the end."""
    size = content.size()
    end = size if stop is None else content.line_start(min(stop, size))
    at = min(max(start, content.floor), size)
    found = unfinished = 0
    deadline = time.monotonic() + patience
    for block in forward(content, at, end):
        here = wanted.count(content, block)
        if block.end >= size and not _ends_whole(content, block.end):
            last = content.line_start(block.end - 1)
            unfinished = sum(line.start >= last for line, _ in wanted.select(content, block))
            found += here - unfinished
            at = last
            break
        found += here
        at = block.end
        if time.monotonic() >= deadline:
            return Counted(found, at, at >= end, 0, content.generation)
    return Counted(found, at, True, unfinished, content.generation)


def _ends_whole(content: Content, end: int) -> bool:
    return content.read_at(end - 1, 1) == b"\n"
