"""Hiding, showing and expanding the panels of a screen, by classes of its CSS."""

from __future__ import annotations

from dataclasses import replace

from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import Widget

from launchmon.tui.layout import Arrangement, Layouts, size_class

ONE = "-one-panel"
EXPANDED = "-expanded"
HIDDEN = "-hidden"


class Arranging:
    """The arrangement of one screen. A panel is known by its id; ``within`` holds some of them side by side."""

    def __init__(self, screen: Screen[None], layouts: Layouts, hideable: tuple[str, ...], within: str) -> None:
        self._screen = screen
        self._layouts = layouts
        self._hideable = hideable
        self._within = within
        self._now = Arrangement()

    def fit(self) -> None:
        """The screen has a size, or another one: take what was chosen for it."""
        self._apply(self._layouts.of(self._size))

    def expand(self, panel: str) -> None:
        """Give this panel the whole middle, or take it back."""
        self._choose(replace(self._now, expanded=None if self._now.expanded == panel else panel))

    def shrink(self) -> bool:
        """Take the middle back from the panel that has it, if one has."""
        if self._now.expanded is None:
            return False
        self._choose(replace(self._now, expanded=None))
        return True

    def hide(self, panel: str) -> bool:
        """Not the last one, and none that has to stay."""
        hidden = self._now.hidden | {panel}
        if panel not in self._hideable or hidden >= set(self._hideable):
            return False
        self._choose(Arrangement(hidden))
        return True

    def show_all(self) -> bool:
        """Whether anything was hidden."""
        if not self._now.hidden:
            return False
        self._choose(replace(self._now, hidden=frozenset()))
        return True

    def uncover(self, panel: str) -> None:
        """Have it on the screen until the next choice, which this is not."""
        if panel in self._now.hidden or self._now.expanded not in (None, panel):
            self._apply(Arrangement(self._now.hidden - {panel}))

    @property
    def hidden(self) -> frozenset[str]:
        return self._now.hidden

    @property
    def _size(self) -> str:
        return size_class(*self._screen.size)

    def _choose(self, arrangement: Arrangement) -> None:
        self._layouts.keep(self._size, arrangement)
        self._apply(arrangement)

    def _apply(self, arrangement: Arrangement) -> None:
        self._now = arrangement
        self._screen.query(f".{EXPANDED}").remove_class(EXPANDED)
        for name in self._hideable:
            self._screen.query_one(f"#{name}").set_class(name in arrangement.hidden, HIDDEN)
            self._screen.set_class(name in arrangement.hidden, f"-no-{name}")
        grown = self._grown(arrangement.expanded)
        self._screen.set_class(grown is not None, ONE)
        if grown is not None:
            grown.add_class(EXPANDED)
            holder = grown.parent
            if isinstance(holder, Widget) and holder.id == self._within:
                holder.add_class(EXPANDED)
        self._screen.call_after_refresh(self._keep_focus)

    def _keep_focus(self) -> None:
        """What is out of sight has no focus."""
        focused = self._screen.focused
        if focused is None or not all(node.display for node in focused.ancestors_with_self if isinstance(node, Widget)):
            self._screen.focus_next()

    def _grown(self, panel: str | None) -> Widget | None:
        try:
            return None if panel is None else self._screen.query_one(f"#{panel}")
        except NoMatches:  # remembered by another version
            return None
