"""The line at the bottom of the log that asks for a search, a filter or a place."""

from __future__ import annotations

from typing import ClassVar

from textual.message import Message

from launchmon.tui.widgets.prompt import Field, Prompt

SIGNS = {"search": "/", "search-back": "\\", "only": "&", "go": ":"}
"""What is asked for → the sign in front, which is also the key that asks."""

PATTERNS = ("search", "search-back", "only")
"""Questions whose answer can be a regular expression."""


class _PatternField(Field):
    BINDINGS: ClassVar = [("ctrl+r", "kind", "text or regular expression")]

    class Kind(Message):
        """The field is to take the other kind of pattern."""

    def action_kind(self) -> None:
        self.post_message(self.Kind())


class LogPrompt(Prompt):
    """A prompt whose answer can be a regular expression: ^R switches to that, and back."""

    FIELD = _PatternField
    GAP = ""

    class Answered(Prompt.Answered):
        """``regex``: ``text`` is an expression."""

        def __init__(self, what: str, text: str | None, regex: bool) -> None:
            super().__init__(what, text)
            self.regex = regex

    def __init__(self) -> None:
        super().__init__(id="log-prompt")
        self._regex = False

    def ask_for(self, what: str) -> None:
        """``what`` is one of :data:`SIGNS`."""
        self.ask(what, self._label_of(what))

    def _label_of(self, what: str) -> str:
        return f"{'regex' if self._takes_regex(what) else ''}{SIGNS[what]}"

    def _takes_regex(self, what: str) -> bool:
        return self._regex and what in PATTERNS

    def on__pattern_field_kind(self, event: _PatternField.Kind) -> None:
        event.stop()
        self._regex = not self._regex
        self._say(self._label_of(self._what))

    def _answer(self, text: str | None) -> None:
        self.post_message(self.Answered(self._what, text, self._takes_regex(self._what)))
