"""A box over the screen that says something, asks for one key, and follows what happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.screen import ModalScreen

from launchmon.session_like import SessionLike
from launchmon.tui.widgets.lines import Lines, Row, set_title

REFRESH_S = 0.25


class Dialog(ModalScreen[None]):
    """Draws :meth:`content` anew, soon after the session has changed. Classes: ``-failed`` and ``-over``."""

    WIDEST: ClassVar[int] = 100
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 90%; max-width: 100; height: auto; max-height: 90%;
        border: round $warning; border-title-color: $text-warning; border-title-style: bold;
        background: $surface; padding: 0 1;
    }
    Dialog.-over > Vertical { border: round $success; border-title-color: $text-success; }
    Dialog.-failed > Vertical { border: round $error; border-title-color: $text-error; }
    """

    def __init__(self, session: SessionLike, lines_id: str) -> None:
        super().__init__()
        self._session = session
        self._lines = Lines(id=lines_id)
        self._frame = Vertical(self._lines)
        self._unsubscribe: Callable[[], None] | None = None
        self._due = False

    def compose(self) -> ComposeResult:
        yield self._frame

    def on_mount(self) -> None:
        self._unsubscribe = self._session.subscribe(self.session_changed)
        self.draw()

    def on_unmount(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    def on_resize(self, _: Resize) -> None:
        self.call_after_refresh(self.draw)

    def action_close(self) -> None:
        self.dismiss()

    def session_changed(self) -> None:
        if not self._due and self.is_attached:
            self._due = True
            self.set_timer(REFRESH_S, self.draw)

    def content(self, width: int, most: int) -> tuple[str, Sequence[Row]]:
        """Title and rows, of which the last ``most`` are shown: the keys stand at the end."""
        raise NotImplementedError

    def draw(self) -> None:
        self._due = False
        if not self.is_attached:
            return
        width = max(20, min(self.WIDEST, self.size.width * 9 // 10) - 4)
        most = max(8, self.size.height * 9 // 10 - 2)
        title, rows = self.content(width, most)
        set_title(self._frame, title)
        self._lines.show(rows[-most:])
