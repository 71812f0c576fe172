"""A dump against those before it: who has not moved, and since when. Pure.

Of a rank that spins, frames stay and lines change; of one that works, frames change; of one that hangs, neither. A
healthy idle rank looks like a hung one in a single dump, so only several tell, together with CPU time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from launchmon_agent.events import Frame, RankStack, Stacks, Thread
from launchmon_agent.stacks.model import frames_of, main_thread, where

_Place = tuple[str, str, int | None]


@dataclass(frozen=True)
class Change:
    """One process between its dumps."""

    who: str
    unchanged: int  # how many dumps in a row before this one show the same main thread, line for line
    since: float | None  # time of the oldest of these; None: there is none
    was: str | None = None  # innermost frame in the dump before, where it has moved
    now: str | None = None
    threads_moved: bool | None = None  # another thread has moved since the dump before; None: there is none to compare

    @property
    def moved(self) -> bool | None:
        """None: there is no earlier dump of this process to compare with."""
        if self.unchanged:
            return False
        return None if self.was is None else True


@dataclass(frozen=True)
class Pair:
    """One process in two dumps, for a look side by side. Frames outermost first."""

    who: str
    common: int  # outermost frames that both have, line for line
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def same(self) -> bool:
        return self.common == len(self.before) == len(self.after)


def changes(dump: Stacks, previous: Sequence[Stacks]) -> tuple[Change, ...]:
    """Of every process with frames in ``dump``. ``previous``: earlier dumps, oldest first."""
    earlier = [(old, {_id(stack): stack for stack in old.stacks}) for old in previous]
    out = []
    for stack in dump.stacks:
        now = _places(dump, main_thread(stack))
        if not now:
            continue
        unchanged, since = 0, None
        last: tuple[Stacks, RankStack] | None = None
        for old, stacks in reversed(earlier):
            found = stacks.get(_id(stack))
            if found is None or not found.threads or _depth(found) != _depth(stack):
                continue
            last = last or (old, found)
            if _places(old, main_thread(found)) != now:
                break
            unchanged, since = unchanged + 1, old.at
        was = None
        moved = None
        if last is not None:
            moved = _beside(*last) != _beside(dump, stack)
            was = None if unchanged else _innermost(last[0], main_thread(last[1]))
        out.append(Change(stack.who, unchanged, since, was, _innermost(dump, main_thread(stack)), moved))
    return tuple(out)


def side_by_side(before: Stacks, after: Stacks) -> tuple[Pair, ...]:
    """The processes that both dumps hold (the same ones, not others of their rank), in the order of ``after``."""
    earlier = {_id(stack): stack for stack in before.stacks}
    out = []
    for stack in after.stacks:
        found = earlier.get(_id(stack))
        if found is None:
            continue
        old = list(reversed(frames_of(before, main_thread(found))))
        new = list(reversed(frames_of(after, main_thread(stack))))
        common = 0
        for one, other in zip(old, new, strict=False):
            if _place(one) != _place(other):
                break
            common += 1
        out.append(Pair(stack.who, common, tuple(map(where, old)), tuple(map(where, new))))
    return tuple(out)


def _id(stack: RankStack) -> tuple[int, int]:
    """Of a process. Its start time survives the wire to a millisecond, and is a tick (10 ms) exact at best."""
    return stack.pid, round(stack.start_time * 10)


def _depth(stack: RankStack) -> str | None:
    """Stacks read by means that see different things cannot be compared."""
    return "py-spy" if stack.means is not None and stack.means.startswith("py-spy") else stack.means


def _place(frame: Frame) -> _Place:
    return frame.function, frame.file, frame.line


def _places(dump: Stacks, thread: Thread | None) -> list[_Place]:
    """Of the Python frames, where there are any: native ones are there only if they were asked for."""
    frames = frames_of(dump, thread)
    python = [frame for frame in frames if not frame.native]
    return list(map(_place, python or frames))


def _innermost(dump: Stacks, thread: Thread | None) -> str | None:
    frames = frames_of(dump, thread)
    return where(frames[0]) if frames else None


def _beside(dump: Stacks, stack: RankStack) -> Counter[tuple[_Place, ...]]:
    """Where the threads beside the main one are; they have no names that last, so as a bag."""
    chosen = main_thread(stack)
    return Counter(tuple(_places(dump, thread)) for thread in stack.threads if thread is not chosen)
