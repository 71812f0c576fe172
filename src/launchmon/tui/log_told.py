"""What the model tells of the log that is shown: of a run on several nodes, that of one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launchmon.session_like import ModelLike
from launchmon.tui.log_places import phase_begins
from launchmon_agent.events import LAUNCHER, LogError


@dataclass(frozen=True)
class Told:
    """``model``: none while nothing is known."""

    model: ModelLike | None = None

    @property
    def errors(self) -> Sequence[LogError]:
        """Those in this log: offsets of another node's log mean nothing in it."""
        if self.model is None:
            return ()
        log = self.model.log
        return [error for error in self.model.errors if log is None or error.node == log.node]

    @property
    def node(self) -> int | None:
        """Whose log it is, of a run on several."""
        log = None if self.model is None else self.model.log
        return None if log is None else log.node

    def phase_begins(self) -> dict[str, int]:
        """Phase → offset of the first line that tells of it, in the order of the log."""
        if self.model is None:
            return {}
        marks = self.model.all_marks
        if self.node is None:
            return phase_begins(marks)
        ranks = [*self.ranks(), *([LAUNCHER] if self.node == 0 else [])]  # the launcher that is told of is node 0's
        return phase_begins(mark for mark in marks if mark.rank in ranks)

    def ranks(self) -> list[str]:
        """Those that write into this log, in order."""
        if self.model is None:
            return []
        rows = [row for row in self.model.rank_rows() if row.rank]
        return [row.rank or "" for row in rows if self.node is None or row.node == self.node]

    def elsewhere(self) -> str:
        """That errors are in the logs of other nodes only; empty where they are not."""
        errors = () if self.model is None else self.model.errors
        nodes = sorted({error.node for error in errors if error.node is not None})
        return f"no error in this log, but in that of node {', '.join(map(str, nodes))}" if nodes else ""
