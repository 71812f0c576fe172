"""Sets of ranks in few characters, and what the ranks of a set have in common. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from launchmon_agent.sglang.titles import coordinates

NODE = "node "


def label(ranks: Iterable[str]) -> str:
    """``TP0-2,4-7``, ``DP1 TP0-3``, ``DP0-1 TP0 + DP2 TP1``; what is no rank tag stands as it is."""
    shapes: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
    others: list[str] = []
    for rank in dict.fromkeys(ranks):
        own = coordinates(rank)
        if own and " ".join(f"{name}{value}" for name, value in own.items()) == rank:
            shapes.setdefault(tuple(own), []).append(tuple(own.values()))
        else:
            others.append(rank)
    tagged = (text for names, rows in shapes.items() for text in _texts(names, rows))
    return " + ".join([*tagged, *others])


def _texts(names: Sequence[str], rows: Collection[tuple[int, ...]]) -> list[str]:
    """The rows as products of ranges: values of the first coordinate that go with the same rest are one range."""
    rests: dict[int, set[tuple[int, ...]]] = {}
    for row in rows:
        rests.setdefault(row[0], set()).add(row[1:])
    values: dict[frozenset[tuple[int, ...]], list[int]] = {}
    for value in sorted(rests):
        values.setdefault(frozenset(rests[value]), []).append(value)
    out = []
    for rest, same in values.items():
        head = names[0] + _ranges(same)
        tails = _texts(names[1:], sorted(rest)) if len(names) > 1 else [""]
        out += [f"{head} {tail}".rstrip() for tail in tails]
    return out


def _ranges(values: Iterable[int]) -> str:
    """``0-2,4-7``."""
    parts: list[list[int]] = []
    for value in sorted(values):
        if parts and parts[-1][1] == value - 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def shared(some: Collection[str], everyone: Collection[str], nodes: Mapping[str, int] | None = None) -> str | None:
    """What makes up a set of ranks among ``everyone``: ``"DP1"``: they are all of DP1, ``"3 of the 4 in node 1"``.

    None: nothing does, or the set is a single rank or everybody. ``nodes``: of ranks, where there are several.
    """
    chosen = set(some)
    if not 1 < len(chosen) < len(set(everyone)):
        return None
    places = {rank: dict(coordinates(rank)) for rank in everyone}
    for rank, node in (nodes or {}).items():
        if rank in places:
            places[rank][NODE] = node
    first, *_ = (places[rank] for rank in everyone if rank in chosen)
    partly = None
    for size in (1, 2):
        for names in combinations(first, size):
            wanted = [(name, first[name]) for name in names]
            there = {rank for rank, own in places.items() if all(own.get(name) == value for name, value in wanted)}
            text = " ".join(f"{name}{value}" for name, value in wanted)
            if there == chosen:
                return text
            if partly is None and chosen < there and len(there) < len(places):
                partly = f"{len(chosen)} of the {len(there)} in {text}"
    return partly
