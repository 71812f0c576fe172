"""Many stacks as one tree: what all ranks have in common once, and where they part. Pure.

As STAT did it for MPI: a prefix tree from the outermost frame of each rank's main thread, its edges labelled with sets
of ranks. Ranks with the same path are one *group*; the smallest group is where to look first. Frames are told apart by
function and file, so ranks in one function at different lines stay together; the lines are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from launchmon_agent.events import RankStack, Stacks, Thread
from launchmon_agent.stacks.compare import Change, changes
from launchmon_agent.stacks.explain import Explanation, explain, wait_inside
from launchmon_agent.stacks.model import bare, frames_of, main_thread, short_file
from launchmon_agent.stacks.ranges import label, shared
from launchmon_agent.stacks.runtime import is_runtime

QUALIFIED_SINCE = 11
"""The minor version of Python 3 from which code knows its qualified name, and py-spy gives it."""


@dataclass(frozen=True)
class Node:
    """A frame of the tree with the ranks that are in it."""

    function: str
    file: str  # short
    lines: tuple[int, ...]  # at which its ranks are, ascending
    ranks: tuple[str, ...]
    children: tuple[Node, ...] = ()  # the smallest set first
    ends: tuple[str, ...] = ()  # those ranks of which this is the innermost frame

    @property
    def label(self) -> str:
        return label(self.ranks)


@dataclass(frozen=True)
class MergedFrame:
    function: str
    file: str  # short
    lines: tuple[int, ...]
    native: bool
    runtime: bool  # carries others only: folded away until asked for


@dataclass(frozen=True)
class Group:
    """Ranks (or one other process) whose main threads are in the same functions."""

    ranks: tuple[str, ...]
    frames: tuple[MergedFrame, ...]  # innermost first, none left out
    explanation: Explanation | None = None
    inside: Explanation | None = None  # what the innermost frame waits for, of a group that is at work otherwise
    shared: str | None = None  # what makes up this set among all ranks: "DP1", "3 of the 4 in node 1"

    @property
    def label(self) -> str:
        return label(self.ranks)

    @property
    def waiting(self) -> bool | None:
        """None: not known."""
        if self.explanation is None:
            return None
        return self.explanation.waiting or self.inside is not None

    @property
    def shown(self) -> tuple[MergedFrame, ...]:
        """Its frames without those of the runtime, unless there are no others."""
        return tuple(frame for frame in self.frames if not frame.runtime) or self.frames


@dataclass(frozen=True)
class ThreadGroup:
    """Threads beside the main ones that are in the same functions."""

    ranks: tuple[str, ...]
    count: int  # of threads
    names: tuple[str, ...]
    frames: tuple[MergedFrame, ...]
    explanation: Explanation | None = None


@dataclass(frozen=True)
class Merged:
    """A dump as a person reads it."""

    dump: Stacks
    tree: tuple[Node, ...]  # of the ranks
    groups: tuple[Group, ...]  # of the ranks, the one to look at first first
    others: tuple[Group, ...]  # launcher and DP controller, each by itself
    unread: tuple[RankStack, ...]  # processes without any frame; their problem says why
    changes: tuple[Change, ...] = field(default=())  # against the dumps before, of every process


def merge(dump: Stacks, previous: Sequence[Stacks] = (), *, fold: bool = True) -> Merged:
    """``previous``: earlier dumps of the same run, oldest first. ``fold``: leave runtime frames out of the tree."""
    facts = _Facts(dump)
    told = [(stack, main_thread(stack)) for stack in dump.stacks]
    read = [(stack, thread) for stack, thread in told if thread is not None]
    ranks = [(stack, thread) for stack, thread in read if stack.rank is not None]
    return Merged(
        dump=dump,
        tree=_tree(facts, [(stack.who, thread) for stack, thread in ranks], fold),
        groups=_groups(facts, ranks),
        others=tuple(_group(facts, (stack.who,), [thread]) for stack, thread in read if stack.rank is None),
        unread=tuple(stack for stack, thread in told if thread is None),
        changes=changes(dump, previous),
    )


class _Facts:
    """What is true of each frame of a dump, worked out once: its key (function and file), and whether it is folded."""

    def __init__(self, dump: Stacks) -> None:
        self.dump = dump
        self.short = [short_file(frame) for frame in dump.frames]
        keys: dict[tuple[str, str, bool], int] = {}
        name = bare if _is_mixed(dump) else str
        self.key = [
            keys.setdefault((name(frame.function), file, frame.native), len(keys))
            for frame, file in zip(dump.frames, self.short, strict=True)
        ]
        self.runtime = [is_runtime(frame) for frame in dump.frames]

    def visible(self, thread: Thread) -> Sequence[int]:
        """The places of its frames without the runtime's, unless there are no others; innermost first."""
        runtime = self.runtime
        return [at for at in thread.frames if not runtime[at]] or thread.frames

    def path(self, thread: Thread) -> tuple[int, ...]:
        """The keys of these: equal for threads in the same functions."""
        key = self.key
        return tuple([key[at] for at in self.visible(thread)])


def _is_mixed(dump: Stacks) -> bool:
    """Some processes gave qualified names and some bare ones: other Pythons, or other means."""
    styles = set()
    for stack in dump.stacks:
        if stack.threads and stack.means != "proc":
            minor = (stack.python or "").partition(".")[2]
            styles.add(stack.means == "faulthandler" or (minor.isdigit() and int(minor) < QUALIFIED_SINCE))
    return len(styles) > 1


class _Branch:
    __slots__ = ("at", "below", "ends", "lines", "ranks")

    def __init__(self, at: int) -> None:
        self.at = at
        self.below: dict[int, _Branch] = {}
        self.ranks: list[str] = []
        self.ends: list[str] = []
        self.lines: set[int] = set()


def _tree(facts: _Facts, threads: Iterable[tuple[str, Thread]], fold: bool) -> tuple[Node, ...]:
    root = _Branch(-1)
    frames, key = facts.dump.frames, facts.key
    for who, thread in threads:
        branch = root
        for at in reversed(facts.visible(thread) if fold else thread.frames):
            found = branch.below.get(key[at])
            if found is None:
                found = branch.below[key[at]] = _Branch(at)
            found.ranks.append(who)
            line = frames[at].line
            if line is not None:
                found.lines.add(line)
            branch = found
        branch.ends.append(who)
    return _nodes(facts, root)


def _nodes(facts: _Facts, root: _Branch) -> tuple[Node, ...]:
    """Built from the leaves up without recursion: a stack may be deeper than Python lets a function call itself."""
    order = [root]
    for branch in order:
        order.extend(branch.below.values())
    made: dict[int, tuple[Node, ...]] = {}
    for branch in reversed(order):
        children = []
        for below in branch.below.values():
            frame = facts.dump.frames[below.at]
            children.append(
                Node(
                    function=frame.function,
                    file=facts.short[below.at],
                    lines=tuple(sorted(below.lines)),
                    ranks=tuple(below.ranks),
                    children=made.pop(id(below)),
                    ends=tuple(below.ends),
                )
            )
        made[id(branch)] = tuple(sorted(children, key=lambda node: len(node.ranks)))
    return made[id(root)]


def _groups(facts: _Facts, ranks: Sequence[tuple[RankStack, Thread]]) -> tuple[Group, ...]:
    everyone = [stack.who for stack in facts.dump.stacks if stack.rank is not None]
    nodes = {stack.who: stack.node for stack in facts.dump.stacks if stack.node is not None}
    sets: dict[tuple[int, ...], list[tuple[str, Thread]]] = {}
    for stack, thread in ranks:
        sets.setdefault(facts.path(thread), []).append((stack.who, thread))
    found = []
    for members in sets.values():
        who = tuple(rank for rank, _ in members)
        found.append(_group(facts, who, [thread for _, thread in members], shared(who, everyone, nodes)))
    return tuple(sorted(found, key=_suspicion))


def _suspicion(group: Group) -> tuple[int, bool]:
    """The smallest set first; of equal ones those that wait for the other ranks last: they are the victims."""
    return len(group.ranks), group.explanation is not None and group.explanation.waits == "peers"


def _group(facts: _Facts, who: tuple[str, ...], threads: Sequence[Thread], shared_: str | None = None) -> Group:
    frames = frames_of(facts.dump, threads[0])
    said = explain(frames)
    inside = wait_inside(frames) if said is not None and not said.waiting else None
    return Group(who, _frames(facts, threads), said, inside, shared_)


def _frames(facts: _Facts, threads: Sequence[Thread]) -> tuple[MergedFrame, ...]:
    """The frames of threads in the same functions: all of the first, with the lines at which each of them is."""
    frames = facts.dump.frames
    lines: list[set[int]] = [set() for _ in facts.visible(threads[0])]
    for thread in threads:
        for place, at in enumerate(facts.visible(thread)):
            line = frames[at].line
            if line is not None:
                lines[place].add(line)
    visible = iter(lines)
    everything = len(lines) == len(threads[0].frames)
    out = []
    for at in threads[0].frames:
        frame, folded = frames[at], facts.runtime[at]
        own = {frame.line} - {None} if folded and not everything else next(visible)
        numbers = tuple(sorted(line for line in own if line is not None))
        out.append(MergedFrame(frame.function, facts.short[at], numbers, frame.native, folded))
    return tuple(out)


def other_threads(dump: Stacks, ranks: Sequence[str] | None = None) -> tuple[ThreadGroup, ...]:
    """The threads beside the main ones, of ``ranks`` or of all processes; equal ones together, the rarest first."""
    facts = _Facts(dump)
    sets: dict[tuple[int, ...], list[tuple[str, Thread]]] = {}
    for stack in dump.stacks:
        if ranks is not None and stack.who not in ranks:
            continue
        chosen = main_thread(stack)
        for thread in stack.threads:
            if thread is not chosen and thread.frames:
                sets.setdefault(facts.path(thread), []).append((stack.who, thread))
    found = []
    for members in sets.values():
        threads = [thread for _, thread in members]
        found.append(
            ThreadGroup(
                ranks=tuple(dict.fromkeys(who for who, _ in members)),
                count=len(members),
                names=tuple(sorted({thread.name for thread in threads if thread.name})),
                frames=_frames(facts, threads),
                explanation=explain(frames_of(dump, threads[0])),
            )
        )
    return tuple(sorted(found, key=lambda group: len(group.ranks)))
