"""What ``faulthandler`` writes on a signal, as threads. Pure.

Its format is that of CPython's ``Python/traceback.c``, 3.8 to 3.14: threads newest first, so the main one last; at
most 100 threads of 100 frames; names are bare. The header line is the launch hook's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from launchmon_agent.events import Frame
from launchmon_agent.stacks.model import ReadThread

_HEADER = re.compile(
    r"launchmon-hook pid=(?P<pid>\d+) main=0x(?P<main>[0-9a-f]+) fd=(?P<fd>\d+) python=(?P<python>\S+)"
)
_THREAD = re.compile(
    r"(?:Current thread|Thread) 0x(?P<ident>[0-9a-f]+)(?: \[(?P<name>.*)\])? \(most recent call first\):"
)
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)')


@dataclass(frozen=True)
class Header:
    """The first line of a process's file: who wrote it. ``main`` identifies the main thread in what follows."""

    pid: int  # as the process itself sees it
    main: int
    fd: int  # the descriptor that faulthandler writes to
    python: str  # "3.11"


def parse_header(text: str) -> Header | None:
    found = _HEADER.match(text)
    if found is None:
        return None
    return Header(int(found["pid"]), int(found["main"], 16), int(found["fd"]), found["python"])


def parse(text: str, main: int | None) -> list[ReadThread]:
    """The threads of one dump, main thread first. ``main``: its identifier; None takes the oldest thread for it.

    What is no frame inside a thread (``<no Python frame>``, ``Garbage-collecting``, ``...``) is passed over.
    """
    sections: list[tuple[int, str | None, list[Frame]]] = []
    inside = False
    for line in text.splitlines():
        opening = _THREAD.match(line)
        if opening:
            sections.append((int(opening["ident"], 16), opening["name"] or None, []))
        elif line and not line.startswith(" "):
            inside = False  # the stack of C frames that newer versions add
            continue
        inside = inside or bool(opening)
        frame = _FRAME.match(line)
        if frame and inside:
            sections[-1][2].append(_frame(frame))
    oldest = sections[-1][0] if sections else None
    wanted = oldest if main is None else main
    threads = [ReadThread(frames=tuple(frames), name=name, main=ident == wanted) for ident, name, frames in sections]
    return sorted(threads, key=lambda thread: not thread.main)


def _frame(found: re.Match[str]) -> Frame:
    line = None if found["line"] == "???" else int(found["line"])
    return Frame(found["function"], file=found["file"], line=line)
