"""Splits a line of SGLang's log into records, by their prefixes: ``[2026-11-29 17:36:46 DP1 TP0] message``. Pure.

Forms, read in SGLang's source: ``[HH:MM:SS TAGS]`` in 0.2.15, with the date from 0.3, with milliseconds under
``SGLANG_LOG_MS``, followed by ``INFO core.py:524:`` in builds of 2026; ``[gpu=0]`` and ``[gpu_id=0]`` before 0.3.
Tags are any of DP, PP, ATTN_CP, MOE_DP, TP and EP, each only where its size is above one (from 0.4.6), so the lines of
a single rank look like the launcher's. xgrammar's C++ lines (``[16:10:02] /project/cpp/…``) have the form of 0.2.15.

The prefix is searched for, not expected at the start: docker compose, kubectl and the container runtime put their own
text in front, a bar that was not ended shares its line with what follows, and processes that write at the same moment
can put several records on one line.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

PREFIX = re.compile(
    rb"\[(?P<stamp>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d{3})?)(?P<tags>(?: [A-Z][A-Z_]*\d{1,9})*)\]"
    rb"(?: (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w./-]+:\d+:)? ?"
)
_GPU = re.compile(rb"\[gpu(?:_id)?=(\d{1,9})\] ?")
_TORCH = re.compile(rb"(?:\[default\d+\]:)?\[rank(\d{1,9})\]:")
_FURTHER = re.compile(rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_OUTER = re.compile(
    rb"(?:[\w.-]+ +\| |\[pod/[^\]\s]+\] |\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?)"
)
"""What docker compose, ``kubectl logs --prefix`` and the container runtime's files put before each line."""
_CONTROL = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


class Record(NamedTuple):
    """One record, or a line or part of one that has no prefix."""

    start: int  # where it begins in the line, bytes
    stamp: bytes | None  # "2026-11-29 17:36:46", "16:10:02"; None: no prefix
    rank: str | None  # the tags as printed, "DP1 TP0"; None: the launcher's, or that of a single untagged rank
    number: int | None  # torch's global rank, of a line that has only that
    text: bytes  # the message


def records(line: bytes) -> list[Record]:
    """The records of one line, which is without its line end and control sequences."""
    first = PREFIX.match(line) or PREFIX.search(line)
    if first is None:
        return [_bare(line)]
    found = []
    if first.start() and line[: first.start()].strip() and not _OUTER.fullmatch(line, 0, first.start()):
        found.append(_bare(line[: first.start()].rstrip()))
    at = first
    while True:
        further = _FURTHER.search(line, at.end())
        after = PREFIX.match(line, further.start()) if further else None
        end = after.start() if after else len(line)
        found.append(Record(at.start(), at["stamp"], _tag(at["tags"]), None, line[at.end() : end]))
        if after is None:
            return found
        at = after


def _bare(line: bytes) -> Record:
    outer = _OUTER.match(line) if b"|" in line or line[:1] in (b"[", b"2") else None
    start = outer.end() if outer else 0
    if line[start : start + 1] != b"[":
        return Record(0, None, None, None, line[start:])
    gpu = _GPU.match(line, start)
    if gpu:
        return Record(0, None, f"TP{int(gpu[1])}", None, line[gpu.end() :])
    torch = _TORCH.match(line, start)
    if torch:
        return Record(0, None, None, int(torch[1]), line[torch.end() :])
    return Record(0, None, None, None, line[start:])


def strip_control(line: bytes) -> bytes:
    """The line without colours and other terminal control sequences."""
    return _CONTROL.sub(b"", line) if b"\x1b" in line else line


@functools.lru_cache(maxsize=4096)
def _tag(tags: bytes) -> str | None:
    return tags.strip().decode("ascii") or None
