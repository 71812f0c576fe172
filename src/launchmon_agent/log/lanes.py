"""Which ranks a log has shown and which phase each is in: to whom a line without a tag belongs. Pure."""

from __future__ import annotations

import re

from launchmon_agent.events import LAUNCHER
from launchmon_agent.sglang.ranks import SINGLE
from launchmon_agent.sglang.table import MarkRow

_COORDINATE = re.compile(r"([A-Z][A-Z_]*?)(\d+)(?: |$)")


class Lanes:
    """The ranks of one launch, as its marks show them."""

    def __init__(self) -> None:
        self._phase: dict[str, str | None] = {}  # rank → the phase it has begun and not ended

    @property
    def single(self) -> bool:
        """Whether this is a run of one rank that prints no tag."""
        return SINGLE in self._phase and len(self._phase) == 1

    def mark(self, rank: str, row: MarkRow) -> None:
        if rank == LAUNCHER:
            return
        if row.what == "begin":
            self._phase[rank] = row.phase
        elif row.what == "end":
            self._phase[rank] = None
        else:
            self._phase.setdefault(rank, None)

    def of_bar(self, phase: str | None) -> tuple[str, str | None]:
        """The rank and phase of a bar that shows ``phase``; None: the bar does not say which.

        Only the first rank of a group draws bars. Where several groups are in the same phase it is the one that was
        seen first.
        """
        leaders = [rank for rank in self._phase if _coordinates(rank).get("TP", 0) == 0]
        if phase is None:
            busy = [rank for rank in leaders if self._phase[rank] is not None]
            return (busy[0], self._phase[busy[0]]) if busy else (leaders[0] if leaders else LAUNCHER, None)
        for rank in leaders:
            if self._phase[rank] == phase:
                return rank, phase
        return (leaders[0] if leaders else LAUNCHER), phase

    def numbered(self, number: int) -> str:
        """The rank that torch calls ``number``; the launcher where two replicas have one of that number."""
        if not self._phase or self.single:
            return SINGLE if number == 0 else f"TP{number}"
        tp = max(_coordinates(rank).get("TP", 0) for rank in self._phase) + 1
        wanted = {"TP": number % tp, "PP": number // tp}
        fitting = [
            rank
            for rank in self._phase
            if all(_coordinates(rank).get(name, 0) == value for name, value in wanted.items())
        ]
        if not fitting and not any("PP" in rank for rank in self._phase):
            return f"TP{number}"  # it has not written a mark yet
        return fitting[0] if len(fitting) == 1 else LAUNCHER


def _coordinates(tag: str) -> dict[str, int]:
    return {name: int(value) for name, value in _COORDINATE.findall(tag)}
