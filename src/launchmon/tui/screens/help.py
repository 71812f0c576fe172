"""Help: what this screen and the focused panel show, and every key that works here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen

from launchmon.actions import Action
from launchmon.format import fit, wrap
from launchmon.tui.widgets.lines import Lines, Row

KEYS = 14
"""Cells for the keys in front of what they do."""


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar = [("escape,question_mark,f1,q,enter", "dismiss", "close")]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 90%; max-width: 100; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
        scrollbar-size-vertical: 1; scrollbar-background: $surface; scrollbar-color: $foreground 30%;
        border-subtitle-color: $text-muted;
    }
    """

    def __init__(self, title: str, sections: Sequence[tuple[str, str]], actions: Sequence[Action]) -> None:
        """``sections`` are headings with a text each."""
        super().__init__()
        self._title = title
        self._sections = sections
        self._actions = actions
        self._lines = Lines(id="help-text")

    def compose(self) -> ComposeResult:
        box = VerticalScroll(self._lines)
        box.border_title = self._title
        box.border_subtitle = "↑ ↓ scroll · Esc closes"
        yield box

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self, event: Resize) -> None:
        width = max(20, min(100, event.size.width * 9 // 10) - 6)
        self._lines.show(help_rows(self._sections, self._actions, width))


def help_rows(sections: Sequence[tuple[str, str]], actions: Sequence[Action], width: int) -> list[Row]:
    rows: list[Row] = []
    for heading, text in sections:
        if rows:
            rows.append(())
        rows.append(((heading, "strong"),))
        rows += [((line, "plain"),) for line in wrap(text, width)]
    rows += [(), (("keys", "strong"),)]
    for action in actions:
        lines = wrap(action.help, max(20, width - KEYS))
        for place, line in enumerate(lines):
            rows.append(((fit(action.shown_keys if place == 0 else "", KEYS), "key"), (line, "plain")))
    return rows
