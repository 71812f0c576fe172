"""What the dumps of a silence say: who waits for whom, and whether anyone has moved. Pure.

One dump proves nothing, since a healthy idle rank looks like a hung one. So frames count as frozen only when three
dumps that span two intervals of the automatic ones show the same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launchmon_agent.events import RankStack, Stacks
from launchmon_agent.stacks.explain import Explanation
from launchmon_agent.stacks.merge import Group, Merged, merge
from launchmon_agent.stacks.model import bare

FROZEN_DUMPS = 3
FROZEN_S = 8.0
"""Between the first and the last of these; they are taken 5 s apart."""

_PLUMBING = frozenset(
    ("wrapper", "inner", "_fn", "__call__", "_call_impl", "_wrapped_call_impl", "decorate_context")
) | frozenset(("get_available_gpu_memory",))
"""Functions between the wait and what it is part of."""


@dataclass(frozen=True)
class StackView:
    """``ranks`` are those asked about; groups hold these ranks only."""

    dumps: int
    groups: tuple[Group, ...]  # the one to look at first first
    frozen: frozenset[str]  # whose main thread is line for line the same in the last three dumps
    moved: frozenset[str]  # since the dump before
    unread: tuple[RankStack, ...]
    launcher: Group | None

    @property
    def read(self) -> frozenset[str]:
        return frozenset(rank for group in self.groups for rank in group.ranks)

    def all_frozen(self, ranks: Sequence[str]) -> bool:
        return bool(ranks) and self.frozen >= set(ranks)

    @property
    def problem(self) -> RankStack | None:
        """A process that could not be read, and why."""
        return next((stack for stack in self.unread if stack.problem), None)


def view(dumps: Sequence[Stacks], ranks: frozenset[str]) -> StackView | None:
    """``dumps``: of one silence, oldest first. None where there are none."""
    if not dumps:
        return None
    newest = dumps[-1]
    merged = merge(newest, dumps[:-1])
    changes = {change.who: change for change in merged.changes}
    frozen = frozenset(
        who
        for who, change in changes.items()
        if change.unchanged >= FROZEN_DUMPS - 1 and change.since is not None and newest.at - change.since >= FROZEN_S
    )
    return StackView(
        dumps=len(dumps),
        groups=tuple(group for group in merged.groups if set(group.ranks) & ranks),
        frozen=frozen,
        moved=frozenset(who for who, change in changes.items() if change.moved),
        unread=tuple(stack for stack in merged.unread if stack.rank in ranks),
        launcher=_launcher(merged),
    )


def _launcher(merged: Merged) -> Group | None:
    return next((group for group in merged.others if "launcher" in group.ranks), None)


def waits(group: Group) -> str | None:
    """For whom or what a group waits (the words of ``stacks/frames.table``); ``no``: it works. None: not known."""
    if group.inside is not None and group.inside.waits in ("lock", "network"):
        return group.inside.waits
    return None if group.explanation is None else group.explanation.waits


def meaning(group: Group) -> Explanation | None:
    if group.inside is not None and group.inside.waits in ("lock", "network"):
        return group.inside
    return group.explanation


def place(group: Group) -> str:
    """Where a group is, in two names: ``all_reduce ‹ init_memory_pool``."""
    found: list[str] = []
    for frame in group.shown:
        name = bare(frame.function)
        if name not in found and name not in _PLUMBING and not name.startswith("<"):
            found.append(name)
    return " ‹ ".join(found[:2]) or "no frame"
