"""What is seen while a session opens, and why one that was picked from the list could not be."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult

from launchmon.tui.screens.described import DescribedScreen
from launchmon.tui.widgets.facts import refusal_rows
from launchmon.tui.widgets.lines import Lines
from launchmon_agent.errors import Refused


class ConnectScreen(DescribedScreen):
    BINDINGS: ClassVar = [("escape,enter", "back", "back to the list")]
    HELP: ClassVar[str] = "launchmon is reaching the run. q leaves."
    DEFAULT_CSS = """
    ConnectScreen { background: $background; align: center middle; }
    ConnectScreen Lines { width: 80%; max-width: 90; }
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._refusal: Refused | None = None
        self._lines = Lines(id="connect-lines")

    def compose(self) -> ComposeResult:
        yield self._lines

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self, _: events.Resize) -> None:
        self._draw()

    def action_back(self) -> None:
        if self._refusal is not None:
            self.app.pop_screen()

    def fail(self, refusal: Refused) -> None:
        """Say why, instead of waiting."""
        self._refusal = refusal
        self._draw()

    def _draw(self) -> None:
        if self._refusal is None:
            self._lines.show([((f"◌ {self._what}…", "muted"),)])
            return
        width = max(20, min(90, self.app.size.width * 8 // 10))
        self._lines.show([*refusal_rows(self._refusal, width), (), (("Esc", "key"), (" back to the list", "plain"))])
