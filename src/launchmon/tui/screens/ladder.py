"""Begin a ladder: which remedies it would try, and a confirmation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.message import Message

from launchmon.session_like import SessionLike
from launchmon.tui.relaunch.draft import Base
from launchmon.tui.relaunch.ladder_rows import question_rows
from launchmon.tui.widgets.dialog import Dialog
from launchmon.tui.widgets.lines import Row


class LadderScreen(Dialog):
    """``y`` tells the app :class:`Agreed`. ``base`` has the remedies."""

    class Agreed(Message):
        """The ladder may be climbed."""

    BINDINGS: ClassVar = [("y", "agree", "start"), ("escape,n,q", "close", "close")]

    def __init__(self, session: SessionLike, base: Base) -> None:
        super().__init__(session, "ladder-lines")
        self._base = base

    def action_agree(self) -> None:
        self.app.post_message(self.Agreed())

    def content(self, width: int, most: int) -> tuple[str, Sequence[Row]]:  # noqa: ARG002
        return "Climb the ladder?", question_rows(self._base, width)
