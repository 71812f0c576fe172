"""The line at the bottom of the log that asks for a search, a filter or a place."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from launchmon.tui.widgets.lines import Lines

SIGNS = {"search": "/", "search-back": "\\", "only": "&", "go": ":"}
"""What is asked for → the sign in front, which is also the key that asks."""

PATTERNS = ("search", "search-back", "only")
"""Questions whose answer can be a regular expression."""


class _Field(Input):
    BINDINGS: ClassVar = [("escape", "close", "close"), ("ctrl+r", "kind", "text or regular expression")]

    class Closed(Message):
        pass

    class Kind(Message):
        """The field is to take the other kind of pattern."""

    def action_close(self) -> None:
        self.post_message(self.Closed())

    def action_kind(self) -> None:
        self.post_message(self.Kind())


class LogPrompt(Horizontal):
    """:meth:`ask` shows it; it ends with :class:`Answered`. Enter answers, Esc closes, ^R switches to expressions."""

    DEFAULT_CSS = """
    LogPrompt { display: none; height: 1; background: $panel; }
    LogPrompt.-open { display: block; }
    LogPrompt Lines { width: auto; background: $panel; }
    LogPrompt Input { width: 1fr; background: $panel; }
    """

    class Answered(Message):
        """``text`` is None when the person left without an answer."""

        def __init__(self, what: str, text: str | None, regex: bool) -> None:
            super().__init__()
            self.what = what
            self.text = text
            self.regex = regex

    def __init__(self) -> None:
        super().__init__(id="search-bar")
        self._sign = Lines(id="search-kind")
        self._field = _Field(id="search", compact=True)
        self._field.cursor_blink = False
        self._what = "search"
        self._regex = False

    def compose(self) -> ComposeResult:
        yield self._sign
        yield self._field

    @property
    def open(self) -> bool:
        return self.has_class("-open")

    def ask(self, what: str) -> None:
        """``what`` is one of :data:`SIGNS`."""
        self._what = what
        self.add_class("-open")
        self._field.value = ""
        self._say_kind()
        self._field.focus()

    def close(self) -> None:
        self.remove_class("-open")

    def _say_kind(self) -> None:
        regex = "regex" if self._regex and self._what in PATTERNS else ""
        self._sign.show([((f" {regex}{SIGNS[self._what]}", "key"),)])

    def on__field_closed(self, event: _Field.Closed) -> None:
        event.stop()
        self.post_message(self.Answered(self._what, None, self._regex))

    def on__field_kind(self, event: _Field.Kind) -> None:
        event.stop()
        self._regex = not self._regex
        self._say_kind()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Answered(self._what, event.value, self._regex and self._what in PATTERNS))
