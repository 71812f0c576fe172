"""The base of a screen that makes a command: a list to choose from, beside it what comes of it, below it a prompt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget

from launchmon.actions import in_scope
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.relaunch.draft import Draft
from launchmon.tui.screens.described import DescribedScreen
from launchmon.tui.widgets.lines import Lines
from launchmon.tui.widgets.pager import Pager
from launchmon.tui.widgets.prompt import Prompt
from launchmon_agent.errors import Refused

T = TypeVar("T")


class ChoosingScreen(DescribedScreen, Generic[T]):
    """``T`` is an item of the list. Widgets are named NAME-list and so on, and the result ``result_id``.

    The two screens of this kind have different ids for the actions that move about, since a person's own keys may
    name them: each gives its ids to the methods here.
    """

    def __init__(self, name: str, top: Widget, result_id: str) -> None:
        super().__init__()
        self.draft = Draft()
        self._selected = 0
        self._owners: list[int] = []  # of which item each row of the list is
        self._typed_refusal: Refused | None = None
        self._top = top
        self._middle_id = f"{name}-middle"
        self._list = Pager(id=f"{name}-list")
        self._result = Pager(id=result_id)
        self._hints = Lines(id=f"{name}-hints")
        self._prompt = Prompt(id=f"{name}-prompt")

    def compose(self) -> ComposeResult:
        yield self._top
        with Container(id=self._middle_id):
            yield self._list
            yield self._result
        yield self._hints
        yield self._prompt
        yield FooterBar(in_scope(*self.SCOPES, "app"))

    def on_mount(self) -> None:
        self._list.focus()
        self.call_after_refresh(self.look)

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self.look)

    @property
    @abstractmethod
    def items(self) -> Sequence[T]:
        """What there is to choose; empty while it is not known."""

    @abstractmethod
    def look(self) -> None:
        """Show everything as it is now."""

    @abstractmethod
    def _draw_list(self) -> None: ...

    @abstractmethod
    def _use(self) -> None:
        """What a click on the selected item does."""

    @property
    def _item(self) -> T | None:
        shown = self.items
        return shown[self._selected] if shown else None

    def _select(self, place: int) -> None:
        self._selected = max(0, min(place, len(self.items) - 1))
        self._draw_list()

    def select_above(self) -> None:
        self._select(self._selected - 1)

    def select_below(self) -> None:
        self._select(self._selected + 1)

    def select_first(self) -> None:
        self._select(0)

    def select_last(self) -> None:
        self._select(len(self.items) - 1)

    def result_page_up(self) -> None:
        self._result.scroll_pages(-1)

    def result_page_down(self) -> None:
        self._result.scroll_pages(1)

    def _close_prompt(self) -> None:
        self._typed_refusal = None
        self._hints.set_class(False, "-shown")
        self._prompt.close()
        self._list.focus()

    def on_pager_clicked(self, event: Pager.Clicked) -> None:
        if event.pager is self._list and 0 <= event.row < len(self._owners) and self._owners[event.row] >= 0:
            self._select(self._owners[event.row])
            self._use()
