"""One line at the bottom that asks for a text, hidden until it is needed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from launchmon.tui.widgets.lines import Lines


class Field(Input):
    BINDINGS: ClassVar = [("escape", "leave", "close")]

    class Left(Message):
        pass

    def action_leave(self) -> None:
        self.post_message(self.Left())


class _CompletedField(Field):
    BINDINGS: ClassVar = [("tab", "complete", "complete")]

    class Tabbed(Message):
        pass

    def action_complete(self) -> None:
        self.post_message(self.Tabbed())


class Prompt(Horizontal):
    """:meth:`ask` shows it. It then says :class:`Edited` at every change, :class:`Completed` at Tab, and ends with
    :class:`Answered`."""

    FIELD: ClassVar[type[Field]] = _CompletedField
    """What the text is typed into, with its keys."""

    GAP: ClassVar[str] = " "
    """Between the label and the text."""

    DEFAULT_CSS = """
    Prompt { display: none; height: 1; background: $panel; }
    Prompt.-open { display: block; }
    Prompt Lines { width: auto; background: $panel; }
    Prompt Input { width: 1fr; background: $panel; }
    """

    class Edited(Message):
        def __init__(self, what: str, text: str) -> None:
            super().__init__()
            self.what = what
            self.text = text

    class Completed(Message):
        """The rest of ``text`` is asked for."""

        def __init__(self, what: str, text: str) -> None:
            super().__init__()
            self.what = what
            self.text = text

    class Answered(Message):
        """``text`` is None when the person left it with Esc."""

        def __init__(self, what: str, text: str | None) -> None:
            super().__init__()
            self.what = what
            self.text = text

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._label = Lines(id=f"{id}-label")
        self._field = self.FIELD(compact=True, select_on_focus=False)
        self._field.cursor_blink = False
        self._what = ""

    def compose(self) -> ComposeResult:
        yield self._label
        yield self._field

    @property
    def open(self) -> bool:
        return self.has_class("-open")

    @property
    def text(self) -> str:
        return self._field.value

    def ask(self, what: str, label: str, text: str = "") -> None:
        """``what`` names the question in the messages; ``text`` is a first answer that can be edited."""
        self._what = what
        self._say(label)
        self.add_class("-open")
        self.put(text)
        self._field.focus()

    def _say(self, label: str) -> None:
        self._label.show([((f" {label}{self.GAP}", "key"),)])
        self._label.refresh(layout=True)  # another label is as wide as it is, also where it was hidden until now

    def put(self, text: str) -> None:
        """In place of what is typed."""
        with self.prevent(Input.Changed):
            self._field.value = text
        self._field.cursor_position = len(text)

    def close(self) -> None:
        self.remove_class("-open")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.open:
            self.post_message(self.Edited(self._what, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer(event.value)

    def on__completed_field_tabbed(self, event: _CompletedField.Tabbed) -> None:
        event.stop()
        self.post_message(self.Completed(self._what, self._field.value))

    def on_field_left(self, event: Field.Left) -> None:
        event.stop()
        self._answer(None)

    def _answer(self, text: str | None) -> None:
        self.post_message(self.Answered(self._what, text))
