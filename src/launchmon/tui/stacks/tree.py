"""What the list on the left holds: the sets of ranks as a tree, their other threads, or two dumps compared. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from launchmon.format import plural
from launchmon.tui.stacks import words
from launchmon.tui.widgets.lines import Span
from launchmon_agent.events import Stacks
from launchmon_agent.stacks.compare import Pair, side_by_side
from launchmon_agent.stacks.explain import Explanation
from launchmon_agent.stacks.merge import Group, Merged, MergedFrame, Node, other_threads
from launchmon_agent.stacks.ranges import label
from launchmon_agent.stacks.render import short_function


@dataclass(frozen=True)
class Item:
    """An entry that can be selected: processes (or threads) in the same functions."""

    label: str
    who: tuple[str, ...]
    gist: str = ""  # one clause
    path: str = ""  # its innermost functions
    count: str = ""  # "1 of 8", "3 threads"
    mark: Span = ("", "muted")  # against the dumps before, in few cells
    tone: str = "plain"  # of its gist
    frames: tuple[MergedFrame, ...] = ()  # innermost first
    explanation: Explanation | None = None
    inside: Explanation | None = None
    shared: str | None = None  # what makes up this set among all ranks
    problem: words.Problem | None = None  # why there is nothing to show
    pair: Pair | None = None  # of a comparison
    lead: str = ""  # lines of the tree, before its first row
    under: str = ""  # and before its further ones

    def holds(self, text: str) -> bool:
        """Whether it has ``text`` (lower case) anywhere."""
        said = [each.what for each in (self.explanation, self.inside) if each is not None]
        frames = [f"{frame.function} {frame.file}" for frame in self.frames]
        pair = [] if self.pair is None else [*self.pair.before, *self.pair.after]
        problem = [] if self.problem is None else [self.problem.text]
        everything = [self.label, *self.who, self.gist, *said, *frames, *pair, *problem]
        return any(text in each.lower() for each in everything)


@dataclass(frozen=True)
class Fork:
    """An entry between: where the stacks of these ranks part."""

    label: str
    function: str  # the last that they share
    lead: str = ""


Entry = Item | Fork


def groups(merged: Merged) -> list[Entry]:
    """The tree of the ranks, the smallest set first; then launcher and DP controller; then what could not be read."""
    out: list[Entry] = _ranks(merged)
    out += [_of_group(merged, group, "") for group in merged.others]
    for problem in words.problems(merged.dump):
        if problem.unread:
            out.append(Item(problem.label, problem.who, f"✗ {problem.text}", tone="bad", problem=problem))
    return out


def threads(dump: Stacks, who: Sequence[str]) -> list[Entry]:
    """The threads beside the main ones of these processes, the rarest first."""
    out: list[Entry] = []
    for group in other_threads(dump, who):
        names = ", ".join(group.names)
        count = plural(group.count, "thread") if len(group.ranks) > 1 or group.count > 1 else ""
        path, said = words.path(group.frames), words.gist(group.explanation)
        out.append(
            Item(
                label=_named(label(group.ranks), names),
                who=group.ranks,
                gist=said,
                path=path,
                count=count,
                frames=group.frames,
                explanation=group.explanation,
            )
        )
    return out


def compared(before: Stacks, after: Stacks) -> list[Entry]:
    """What became of each process between two dumps; those with the same change together, the movers first."""
    sets: dict[tuple[int, tuple[str, ...], tuple[str, ...]], list[Pair]] = {}
    for pair in side_by_side(before, after):
        sets.setdefault((pair.common, pair.before, pair.after), []).append(pair)
    found = [_of_pairs(pairs) for pairs in sets.values()]
    both = {who for item in found for who in item.who}
    ranks = {stack.who for stack in after.stacks if stack.rank is not None}
    found.sort(key=lambda item: (item.tone == "plain", item.who[0] not in ranks, len(item.who)))
    out: list[Entry] = list(found)
    for dump, gist in ((after, "is new: the dump before has no such process"), (before, "is gone since")):
        alone = tuple(stack.who for stack in dump.stacks if stack.who not in both)
        if alone:
            out.append(Item(label(alone), alone, gist, tone="warn"))
            both.update(alone)
    return out


def matching(entries: Sequence[Entry], text: str) -> list[Entry]:
    """The items that hold ``text``, without the tree; all entries where it is empty."""
    if not text:
        return list(entries)
    wanted = text.lower()
    return [replace(entry, lead="", under="") for entry in entries if isinstance(entry, Item) and entry.holds(wanted)]


def items(entries: Sequence[Entry]) -> list[Item]:
    return [entry for entry in entries if isinstance(entry, Item)]


# ------------------------------------------------------------------------------------------------------------- the tree


@dataclass(frozen=True)
class _Stop:
    """A place in the tree where a set of ranks ends or parts."""

    node: Node
    here: tuple[str, ...]  # ranks of the set that ends here and is not the whole of it
    lead: str
    under: str


def _ranks(merged: Merged) -> list[Entry]:
    """Iterative: a tree may be deeper than Python lets a function call itself."""
    place = {who: at for at, group in enumerate(merged.groups) for who in group.ranks}
    everyone = sum(len(group.ranks) for group in merged.groups)
    out: list[Entry] = []
    todo = [_Stop(node, (), "", "") for node in reversed(_in_order(merged.tree, place))]
    while todo:
        stop = todo.pop()
        if stop.here:
            out.append(_of_group(merged, merged.groups[place[stop.here[0]]], stop.lead, stop.under))
            continue
        node = _last_shared(stop.node)
        if not node.children:
            out.append(_of_group(merged, merged.groups[place[node.ends[0]]], stop.lead, stop.under))
            continue
        whole = len(node.ranks) == everyone
        out.append(Fork(f"all {everyone}" if whole else node.label, short_function(node.function), stop.lead))
        below: list[tuple[Node, tuple[str, ...]]] = [(child, ()) for child in _in_order(node.children, place)]
        if node.ends:
            below.append((node, node.ends))
        for at, (child, here) in reversed(list(enumerate(below))):
            last = at == len(below) - 1
            lead, under = stop.under + ("└ " if last else "├ "), stop.under + ("  " if last else "│ ")
            todo.append(_Stop(child, here, lead, under))
    return out


def _in_order(nodes: Sequence[Node], place: dict[str, int]) -> list[Node]:
    """The part with the most suspicious set first, as in the list of sets."""
    return sorted(nodes, key=lambda node: min(place[who] for who in node.ranks))


def _last_shared(node: Node) -> Node:
    """Down to where its ranks part or end."""
    while len(node.children) == 1 and not node.ends:
        (node,) = node.children
    return node


def _of_group(merged: Merged, group: Group, lead: str, under: str = "") -> Item:
    ranks = sum(stack.rank is not None for stack in merged.dump.stacks)
    of_ranks = group not in merged.others
    return Item(
        label=group.label,
        who=group.ranks,
        gist=words.gist(group.explanation, group.inside),
        path=words.path(group.frames),
        count=f"{len(group.ranks)} of {ranks}" if of_ranks and ranks > 1 else "",
        mark=words.moved_mark(merged.changes, group.ranks),
        frames=group.frames,
        explanation=group.explanation,
        inside=group.inside,
        shared=group.shared,
        lead=lead,
        under=under,
    )


def _of_pairs(pairs: Sequence[Pair]) -> Item:
    who, pair = tuple(each.who for each in pairs), pairs[0]
    if pair.same:
        return Item(label(who), who, "is where it was, line for line", pair.after[-1] if pair.after else "", pair=pair)
    was, now = (_function(side[-1]) if side else "nothing" for side in (pair.before, pair.after))
    path = f"now {pair.after[-1]}" if pair.after else ""
    return Item(label(who), who, f"moved from {was} to {now}", path, tone="good", pair=pair)


def _function(where: str) -> str:
    """``barrier`` of ``barrier (torch/distributed/distributed_c10d.py:4321)``."""
    return where.partition(" (")[0]


def _named(who: str, names: str) -> str:
    return f"{who} {names}" if names else who
