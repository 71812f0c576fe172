"""What a login wants to know: a passphrase, a password, whether a host's key is the right one."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from launchmon.format import one_line, wrap
from launchmon.tui.widgets.lines import Lines, Row


class _Answer(Input):
    BINDINGS: ClassVar = [("escape", "screen.leave", "close")]


class AskScreen(ModalScreen["str | None"]):
    """Ends with the answer, or None when there is none. Without a field it is ``y`` (an empty answer) or no answer."""

    BINDINGS: ClassVar = [("y", "agree", "yes"), ("escape,n", "leave", "no")]
    DEFAULT_CSS = """
    AskScreen { align: center middle; }
    AskScreen > Vertical {
        width: 90%; max-width: 90; height: auto; max-height: 90%;
        border: round $warning; border-title-color: $text-warning; border-title-style: bold;
        background: $surface; padding: 0 1;
    }
    AskScreen Input { margin-top: 1; background: $panel; }
    """

    def __init__(self, question: str, *, field: bool, secret: bool = False) -> None:
        super().__init__()
        self._question = question
        self._lines = Lines(id="ask-lines")
        self._field = _Answer(compact=True, password=secret, select_on_focus=False) if field else None
        if self._field is not None:
            self._field.cursor_blink = False

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Login"
            yield self._lines
            if self._field is not None:
                yield self._field

    def on_mount(self) -> None:
        if self._field is not None:
            self._field.focus()
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    def action_agree(self) -> None:
        if self._field is None:
            self.dismiss("")

    def action_leave(self) -> None:
        self.dismiss(None)

    def _draw(self) -> None:
        width = max(20, min(90, self.size.width * 9 // 10) - 4)
        rows: list[Row] = []
        for line in self._question.splitlines():
            rows += [((part, "plain"),) for part in wrap(one_line(line), width)]
        if self._field is None:
            rows += [(), (("y", "key"), (" yes   ", "plain"), ("Esc", "key"), (" no", "plain"))]
        else:
            rows += [(), (("Enter", "key"), (" answer   ", "plain"), ("Esc", "key"), (" give none", "plain"))]
        self._lines.show(rows)


class ScreenAsker:
    """The :class:`launchmon.connect.Asker` of the TUI: one box at a time, over whatever is shown."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._turn = asyncio.Lock()

    async def ask(self, prompt: str, *, secret: bool) -> str | None:
        return await self._answer(AskScreen(prompt, field=True, secret=secret))

    async def confirm(self, question: str) -> bool:
        return await self._answer(AskScreen(question, field=False)) is not None

    async def _answer(self, screen: AskScreen) -> str | None:
        async with self._turn:
            answered: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

            def answer(value: str | None) -> None:
                if not answered.done():
                    answered.set_result(value)

            try:
                await self._app.push_screen(screen, answer)
                return await answered
            finally:
                if screen.is_active:  # nobody waits for the answer any longer
                    screen.dismiss(None)
