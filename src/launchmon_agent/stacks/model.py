"""What the readers of stacks hand over, how a dump is put together from it, and how its parts are named. Pure.

The dump itself is an event (:class:`launchmon_agent.events.Stacks`). It holds each frame once, so that eight ranks of
sixty threads are some tens of kilobytes, and everything below compares small numbers instead of texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from launchmon_agent.events import Frame, RankStack, Stacks, Thread

LAUNCHER, SCHEDULER, DP_CONTROLLER = "launcher", "scheduler", "dp-controller"

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
_LIBRARY = re.compile(r".*/lib(?:64)?/python3[^/]*/")
_SOURCES = re.compile(r".*/python/(?=sglang/)")


@dataclass(frozen=True)
class ReadThread:
    """One thread as a reader found it. Innermost frame first."""

    frames: tuple[Frame, ...]
    name: str | None = None
    os_id: int | None = None
    main: bool = False
    active: bool | None = None
    owns_gil: bool | None = None


class FrameTable:
    """Gives each frame one place in the list of a dump."""

    def __init__(self) -> None:
        self._places: dict[tuple[object, ...], int] = {}
        self._frames: list[Frame] = []

    @property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(self._frames)

    def place(self, frame: Frame) -> int:
        key = (frame.function, frame.file, frame.line, frame.native, tuple(frame.locals.items()))
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self._frames)
            self._frames.append(frame)
        return found

    def thread(self, read: ReadThread) -> Thread:
        return Thread(
            frames=tuple(map(self.place, read.frames)),
            name=read.name,
            os_id=read.os_id,
            main=read.main,
            active=read.active,
            owns_gil=read.owns_gil,
        )


def combine(dumps: Sequence[Stacks]) -> Stacks:
    """The dumps of several nodes, taken for one question, as one. Raises ValueError when there is none."""
    if not dumps:
        raise ValueError("nothing to combine")
    table = FrameTable()
    stacks: list[RankStack] = []
    for dump in dumps:
        places = [table.place(frame) for frame in dump.frames]
        for stack in dump.stacks:
            threads = (replace(thread, frames=tuple(places[at] for at in thread.frames)) for thread in stack.threads)
            stacks.append(replace(stack, threads=tuple(threads)))
    return replace(
        dumps[0],
        at=min(dump.at for dump in dumps),
        seconds=max((dump.seconds for dump in dumps if dump.seconds is not None), default=None),
        frames=table.frames,
        stacks=tuple(stacks),
    )


def main_thread(stack: RankStack) -> Thread | None:
    """The thread that tells what a process does: its main thread, else the one that holds the GIL, else a busy one.

    A thread without frames tells nothing: a main thread has none once it has left Python.
    """
    telling = [thread for thread in stack.threads if thread.frames]
    for wanted in ("main", "owns_gil", "active"):
        for thread in telling:
            if getattr(thread, wanted):
                return thread
    return telling[0] if telling else None


def frames_of(dump: Stacks, thread: Thread | None) -> list[Frame]:
    """Innermost first."""
    return [] if thread is None else [dump.frames[at] for at in thread.frames]


def short_file(frame: Frame) -> str:
    """A file as a person names it: ``torch/distributed/distributed_c10d.py``, ``sglang/srt/managers/scheduler.py``.

    Equal on nodes that keep the same packages in different places.
    """
    path = frame.file
    if frame.native or path.startswith("<"):
        return path.rsplit("/", 1)[-1]
    for home in (_PACKAGES, _LIBRARY, _SOURCES):
        inside = home.sub("", path, count=1)
        if inside != path:
            return inside
    return path.rsplit("/", 1)[-1]


@lru_cache(maxsize=1 << 14)
def bare(function: str) -> str:
    """The last part of a qualified name: ``GroupCoordinator.barrier`` → ``barrier``. C++ names stay whole."""
    return function if "::" in function else function.rsplit(".", 1)[-1]


def where(frame: Frame) -> str:
    """``barrier (torch/distributed/distributed_c10d.py:4321)``."""
    file = short_file(frame)
    place = file if frame.line is None else f"{file}:{frame.line}"
    return f"{frame.function} ({place})" if place else frame.function
