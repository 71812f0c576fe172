"""Which ranks are late in a collective, by NCCL's own counts. Pure.

Counts are launches: while they move, or are equal, nobody is late. Counts that stand still *and* differ mean that the
ranks ahead wait in a collective that the ranks behind never started. Two answers some seconds apart show it; while work
is outstanding no false alarm of this rule is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from launchmon_agent.events import CollectiveRank, Communicator, Ras

NO_ANSWER = ("no-answer", "dead")


@dataclass(frozen=True)
class Late:
    """One rank that has launched fewer of a collective than a peer has, and launches no more."""

    communicator: str
    rank: int  # within the communicator
    collective: str
    launched: int
    most: int  # that a peer has launched
    pid: int | None
    ours: bool | None
    ahead_in: tuple[str, ...] = ()  # collectives of which it launched more than a peer: the ranks took different ways


def late_ranks(previous: Ras, current: Ras) -> tuple[Late, ...]:
    """The ranks behind in each communicator that stands still, those furthest behind first.

    Nothing where either answer is missing, or is the same answer twice. A communicator one of whose processes still
    launches in another communicator does not count as standing still.
    """
    if previous.error or current.error or current.at <= previous.at:
        return ()
    if current.answered is not None and current.answered == previous.answered:
        return ()
    before = {one.id: one for one in previous.communicators}
    pairs = [(before[one.id], one) for one in current.communicators if one.id in before]
    moving = {who for old, new in pairs for who in _moving(old, new)}
    found: list[Late] = []
    for old, new in pairs:
        if not any(_moving(old, new)) and not moving & {(rank.host, rank.pid) for rank in new.ranks if rank.pid}:
            found += _behind(old, new)
    return tuple(sorted(found, key=lambda late: (late.launched - late.most, late.communicator, late.rank)))


def silent_ranks(answer: Ras) -> tuple[CollectiveRank, ...]:
    """Ranks of the run whose processes did not answer NCCL: stopped, or gone."""
    return tuple(rank for one in answer.communicators for rank in one.ranks if rank.state in NO_ANSWER)


def _moving(old: Communicator, new: Communicator) -> list[tuple[str | None, int | None]]:
    """(host, pid) of the ranks that have launched something in between."""
    before = {rank.rank: rank.counts for rank in old.ranks}
    return [
        (rank.host, rank.pid)
        for rank in new.ranks
        if any(before.get(rank.rank, {}).get(name, count) != count for name, count in rank.counts.items())
    ]


def _behind(old: Communicator, new: Communicator) -> list[Late]:
    """Of ranks that gave the same counts twice."""
    before = {rank.rank: rank.counts for rank in old.ranks}
    ranks = [rank for rank in new.ranks if rank.counts and before.get(rank.rank) == rank.counts]
    names = sorted({name for rank in ranks for name in rank.counts})
    most = {name: max(rank.counts.get(name, 0) for rank in ranks) for name in names}
    least = {name: min(rank.counts.get(name, 0) for rank in ranks) for name in names}
    return [
        Late(
            communicator=new.id,
            rank=rank.rank,
            collective=name,
            launched=rank.counts[name],
            most=most[name],
            pid=rank.pid,
            ours=rank.ours,
            ahead_in=tuple(other for other in names if rank.counts.get(other, 0) > least[other]),
        )
        for rank in ranks
        for name in names
        if name in rank.counts and rank.counts[name] < most[name]
    ]
