"""The bottom line: the keys that matter most, from the table of actions. Also clickable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual import events

from launchmon.actions import Action
from launchmon.keymap import rebound
from launchmon.tui.bindings import method
from launchmon.tui.widgets.lines import Lines, Row, Span, row_width


class FooterBar(Lines):
    DEFAULT_CSS = """
    FooterBar { dock: bottom; height: 1; background: $panel; }
    """

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__(id="footer")
        self._actions = [action for action in actions if action.footer]
        self._places: list[tuple[int, int, Action]] = []

    def on_mount(self) -> None:
        self._actions = rebound(self._actions, getattr(self.app, "keys", {}))

    def relabel(self, id_: str, label: str) -> None:
        """Give an action a label that tells more: ``stacks (kept 3)``."""
        new = [replace(action, label=label) if action.id == id_ else action for action in self._actions]
        if new != self._actions:
            self._actions = new
            self._draw(self.size.width)

    def on_resize(self, event: events.Resize) -> None:
        self._draw(event.size.width)

    def _draw(self, width: int) -> None:
        row, self._places = footer(self._actions, width)
        self.show([row])

    async def on_click(self, event: events.Click) -> None:
        for begin, end, action in self._places:
            if begin <= event.x < end:
                await self.screen.run_action(("app." if action.scope == "app" else "") + method(action))


def footer(actions: Sequence[Action], width: int) -> tuple[Row, list[tuple[int, int, Action]]]:
    """The row, and where in it each action is. Those with the highest ``footer`` leave first when room is short.

    They are listed in the order of the table, except that the two most lasting ones (help, detach) come last.
    """
    shown = sorted(actions, key=lambda action: action.footer)
    while shown and _width(shown) > width:
        shown.pop()
    ordered = [action for action in actions if action in shown and action.footer > 2]
    ordered += [action for action in reversed(shown) if action.footer <= 2]
    out: list[Span] = []
    places = []
    for action in ordered:
        begin = row_width(out)
        out += [(f" {action.shown_keys.split(' ')[0]}", "key"), (f" {action.label} ", "plain")]
        places.append((begin, row_width(out), action))
    return tuple(out), places


def _width(actions: Sequence[Action]) -> int:
    return sum(len(action.shown_keys.split(" ")[0]) + len(action.label) + 3 for action in actions)
