"""The base of a screen over the run that goes on with it: its header, its clock, and the session's changes."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from launchmon.session_like import SessionLike
from launchmon.tui.panels.header import HeaderBar
from launchmon.tui.screens.described import DescribedScreen
from launchmon.tui.view import View

REFRESH_S = 1.0


class FollowingScreen(DescribedScreen):
    """Draws itself with :meth:`look`: each second, when its size has changed, and whenever it says so itself."""

    def __init__(self, session: SessionLike, header_id: str) -> None:
        super().__init__()
        self.session = session
        self.header = HeaderBar(id=header_id)
        self._unsubscribe: Callable[[], None] | None = None

    def on_mount(self) -> None:
        self._unsubscribe = self.session.subscribe(self.session_changed)
        self.set_interval(REFRESH_S, self.each_second)
        self.call_after_refresh(self.look)

    def on_unmount(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self.look)

    def session_changed(self) -> None:
        """The session has changed, possibly many times a second."""

    def each_second(self) -> None:
        self.look()

    def look(self) -> None:
        """Show the session as it is now."""
        raise NotImplementedError

    def look_at_header(self) -> None:
        self.header.look(View.of(self.session))
