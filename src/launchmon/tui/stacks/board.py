"""What a person looks at on the stacks screen: which dump, which view of it, which entry. Pure, and without Textual."""

from __future__ import annotations

from launchmon.tui.stacks import tree
from launchmon.tui.stacks.history import History
from launchmon_agent.events import Stacks
from launchmon_agent.stacks.merge import Merged

SETS, THREADS, COMPARE = "sets", "threads", "compare"


class Board:
    """Changes by its methods; :meth:`refresh` then brings :attr:`entries` and :attr:`selected` up to date."""

    def __init__(self) -> None:
        self.history = History()
        self.mode = SETS
        self.filter = ""
        self.fold = True
        self.entries: list[tree.Entry] = []
        self.selected: tree.Item | None = None
        self.threads_of: tuple[str, ...] = ()  # of whom, in that mode
        self._wanted: str | None = None  # whom a person has selected: kept from dump to dump

    @property
    def merged(self) -> Merged | None:
        return self.history.merged()

    @property
    def before(self) -> Stacks | None:
        """What a comparison is with."""
        return self.history.before

    @property
    def items(self) -> list[tree.Item]:
        return tree.items(self.entries)

    def refresh(self) -> None:
        self.entries = tree.matching(self._all(), self.filter)
        shown = self.items
        wanted = [item for item in shown if item.label == self._wanted]
        wanted += [item for item in shown if self._wanted in item.who]
        self.selected = next(iter([*wanted, *shown]), None)

    def _all(self) -> list[tree.Entry]:
        merged, before = self.merged, self.before
        if merged is None:
            return []
        if self.mode == COMPARE and before is not None:
            return tree.compared(before, merged.dump)
        if self.mode == THREADS:
            return tree.threads(merged.dump, self.threads_of)
        return tree.groups(merged)

    def select(self, item: tree.Item | None) -> None:
        if item is not None:
            self._wanted = item.label

    def select_who(self, who: str) -> None:
        """The entry that holds this rank."""
        self.select(next((item for item in self.items if who in item.who), None))

    def select_next(self, by: int) -> None:
        shown = self.items
        if self.selected in shown:
            place = shown.index(self.selected) + by
            self.select(shown[max(0, min(place, len(shown) - 1))])

    def select_edge(self, last: bool) -> None:
        shown = self.items
        if shown:
            self.select(shown[-1 if last else 0])

    def toggle_threads(self) -> None:
        """The other threads of the selected entry, or the sets again."""
        if self.mode == THREADS:
            self.mode = SETS
        elif self.selected is not None:
            self.threads_of, self.mode = self.selected.who, THREADS

    def toggle_compare(self) -> bool:
        """Side by side with the dump before, or the sets again. False: there is none before."""
        if self.mode == COMPARE:
            self.mode = SETS
        elif self.before is None:
            return False
        else:
            self.mode = COMPARE
        return True

    def step(self, by: int) -> bool:
        """To an older (-1) or newer (1) dump. False: there is none."""
        moved = self.history.step(by)
        if self.mode == COMPARE and self.before is None:
            self.mode = SETS
        return moved

    def leave(self) -> bool:
        """Close the innermost of what is open. False: nothing is."""
        if self.filter:
            self.filter = ""
        elif self.mode != SETS:
            self.mode = SETS
        else:
            return False
        return True

    def why_empty(self) -> tuple[str, str]:
        """Where no entry is to be shown: a title, and a sentence."""
        if self.filter:
            return "no match", f"Nothing here holds “{self.filter}”. Esc shows all again."
        if self.mode == THREADS:
            return "no other threads", "These processes have no threads beside their main ones."
        if self.mode == COMPARE:
            return "nothing in common", "There is nothing in the one or the other dump."
        return "empty", "No process of this run was alive: there was nothing to read."
