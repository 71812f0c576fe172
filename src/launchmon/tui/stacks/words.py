"""What a dump says, in words: by which means, who has moved, what went wrong. Pure."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from launchmon import format as fmt
from launchmon.tui.widgets.lines import Span
from launchmon_agent.events import RankStack, Stacks
from launchmon_agent.stacks.compare import Change
from launchmon_agent.stacks.explain import Explanation
from launchmon_agent.stacks.merge import MergedFrame
from launchmon_agent.stacks.ranges import label
from launchmon_agent.stacks.render import short_function

MEANS = {
    "py-spy": "py-spy",
    "py-spy --nonblocking": "py-spy",  # whether a rank was paused is of no use to who reads its stack
    "faulthandler": "the launch hook",
    "proc": "/proc",
}
STATES = {"T": "stopped by a signal", "t": "held by a debugger", "D": "in disk sleep", "Z": "a zombie"}
"""States in which a process cannot run on by itself."""

PYTHON, NATIVE = "Python", "native code"
"""The families of the standard library, and of what is no Python."""

_PID = re.compile(r" of process \d+")
_PATH = 2
"""Functions that stand for a stack in one line."""


@dataclass(frozen=True)
class Problem:
    """What went less than well with some processes, and one step that helps."""

    who: tuple[str, ...]
    text: str
    cure: str | None
    unread: bool  # nothing at all is known of them

    @property
    def label(self) -> str:
        return label(self.who)


def time_of(at: float) -> str:
    """The time of day here: ``18:05:41``."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def means(dump: Stacks) -> str:
    """``by py-spy``; ``by py-spy (7 of 9) and /proc (1)`` where not all were read alike."""
    counts = Counter(MEANS.get(stack.means, stack.means) for stack in dump.stacks if stack.means)
    if not counts:
        return "nothing could be read"
    everyone = len(dump.stacks)
    if len(counts) == 1 and sum(counts.values()) == everyone:
        return f"by {next(iter(counts))}"
    (first, count), *rest = counts.most_common()
    return " and ".join([f"by {first} ({count} of {everyone})", *(f"{name} ({count})" for name, count in rest)])


def who_was_read(dump: Stacks) -> str:
    """``8 ranks + launcher``."""
    ranks = sum(stack.rank is not None for stack in dump.stacks)
    others = Counter(stack.role for stack in dump.stacks if stack.rank is None)
    parts = [fmt.plural(ranks, "rank")] if ranks or not others else []
    parts += [role if count == 1 else f"{count} × {role}" for role, count in others.items()]
    return " + ".join(parts)


def problems(dump: Stacks) -> list[Problem]:
    """Equal ones once, those of processes without any stack first."""
    found: dict[tuple[str, bool], list[RankStack]] = {}
    for stack in dump.stacks:
        unread = not any(thread.frames for thread in stack.threads)
        if stack.problem or unread:
            text = _PID.sub("", stack.problem or "it gave no frames")
            found.setdefault((text, unread), []).append(stack)
    out = [
        Problem(tuple(stack.who for stack in stacks), text, stacks[0].cure, unread)
        for (text, unread), stacks in found.items()
    ]
    return sorted(out, key=lambda problem: not problem.unread)


def movement(changes: Sequence[Change], who: Collection[str]) -> Span:
    """``unchanged ×3 since 18:05:11``, ``moved``; empty where there is nothing earlier to compare with."""
    told = [change for change in changes if change.who in who and change.moved is not None]
    if not told:
        return "", "muted"
    still = [change for change in told if change.unchanged]
    moved = [change for change in told if not change.unchanged]
    if not still:
        return f"↷ moved, {'was' if len(moved) == 1 else 'one was'} in {moved[0].was}", "good"
    least = min(still, key=lambda change: change.unchanged)
    words = f"= unchanged ×{least.unchanged}" + ("" if least.since is None else f" since {time_of(least.since)}")
    if moved:
        return f"{words}, but {label(change.who for change in moved)} moved", "plain"
    if any(change.threads_moved for change in still):
        return f"{words}, other threads moved", "plain"
    return words, "warn"


def moved_mark(changes: Sequence[Change], who: Collection[str]) -> Span:
    """:func:`movement` in a few words: ``= unchanged ×3``, ``↷ moved``."""
    words, tone = movement(changes, who)
    if not words:
        return "", tone
    counts = [change.unchanged for change in changes if change.who in who and change.moved is not None]
    return (f"= unchanged ×{min(counts)}" if min(counts) else "↷ moved"), tone


def states(dump: Stacks, who: Collection[str]) -> str:
    """``TP3 stopped by a signal``: those of ``who`` that cannot run on by themselves."""
    found: dict[str, list[str]] = {}
    for stack in dump.stacks:
        words = STATES.get(stack.state_before or "")
        if words and stack.who in who:
            found.setdefault(words, []).append(stack.who)
    return " · ".join(f"{label(ranks)} {words}" for words, ranks in found.items())


def path(frames: Sequence[MergedFrame]) -> str:
    """The innermost functions of the code that matters: ``monitored_barrier ‹ dist_barrier_after_load``."""
    own = [frame for frame in frames if not frame.runtime] or list(frames)
    telling = [frame for frame in own if family(frame) not in (PYTHON, NATIVE)] or own
    return " ‹ ".join(short_function(frame.function) for frame in telling[:_PATH])


def place(frame: MergedFrame) -> str:
    """Where a frame is: ``torch/distributed/c10d.py:4321``; as much of it as is known."""
    at = ",".join(map(str, frame.lines))
    return f"{frame.file}:{at}" if at and frame.file else frame.file or at


def family(frame: MergedFrame) -> str:
    """Whose code it is: ``torch``, ``sglang``, ``Python``, ``native code``."""
    if frame.native:
        return NATIVE
    package = frame.file.partition("/")[0]
    if package.startswith("<") or package.removesuffix(".py") in sys.stdlib_module_names:
        return PYTHON
    return package.removesuffix(".py") or PYTHON


def gist(said: Explanation | None, inside: Explanation | None = None) -> str:
    """One clause: what is going on. Empty where the code is not known."""
    if said is None:
        return ""
    return said.what if inside is None else f"{said.what}; its innermost frame {inside.what}"
