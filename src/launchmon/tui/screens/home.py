"""The first screen without a run: the runs that were found here, or how to get one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.message import Message

from launchmon.actions import in_scope
from launchmon.tui import format as fmt
from launchmon.tui.bindings import bindings
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.panels.rail import phase_words
from launchmon.tui.protocol import Found
from launchmon.tui.screens.described import DescribedScreen
from launchmon.tui.screens.kill import refusal_rows
from launchmon.tui.widgets.lines import Lines, Row, Span
from launchmon.tui.widgets.table import Cell, Column, Layout, lay_out
from launchmon_agent.errors import Refused

Pick = Callable[[], Awaitable[Sequence[Found]]]

LOOK_AGAIN_S = 3.0

COLUMNS = (
    Column("mark", "", 1),
    Column("label", "run", 12, most=32, grows=2),
    Column("model", "model", 12, rank=3, most=40, grows=3),
    Column("tp", "tp", 3, rank=4, align="right"),
    Column("port", "port", 5, rank=2, align="right"),
    Column("phase", "phase", 10, most=16),
    Column("age", "age", 6, align="right"),
    Column("pid", "pid", 7, rank=5, align="right"),
    Column("origin", "", 10, rank=6),
)

TEACH: tuple[Row, ...] = (
    (("No SGLang run was found on this machine.", "strong"),),
    (),
    (("launchmon demo", "key"), ("                      see it work, without a GPU or SGLang", "plain")),
    (("launchmon launch -- COMMAND…", "key"), ("        start a server and watch it; it outlives launchmon", "plain")),
    (("launchmon attach --pid PID", "key"), ("          watch a server that was not found", "plain")),
    (("launchmon attach user@host", "key"), ("          look on another machine", "plain")),
    (),
    (("A server that starts now appears here by itself.", "muted"),),
)


class HomeScreen(DescribedScreen):
    SCOPES = ("home",)
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "Runs on this machine: those that launchmon started, and others that it found by their processes. "
        "Attaching changes nothing about a run; leaving does not stop it."
    )
    DEFAULT_CSS = """
    HomeScreen { background: $background; overflow: hidden; }
    HomeScreen #home-title { height: 1; background: $panel; }
    HomeScreen #home-list { height: 1fr; padding: 1 1; }
    """

    class Chosen(Message):
        """A run is to be attached to."""

        def __init__(self, found: Found) -> None:
            super().__init__()
            self.found = found

    def __init__(self, pick: Pick) -> None:
        super().__init__()
        self._pick = pick
        self._found: Sequence[Found] | None = None
        self._refusal: Refused | None = None
        self._place = 0
        self._title = Lines(id="home-title")
        self._list = Lines(id="home-list")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._list
        yield FooterBar(in_scope("home", "app"))

    def on_mount(self) -> None:
        self._title.show([((" launchmon ", "key"), (" pick a run", "plain"))])
        self._look()
        self.set_interval(LOOK_AGAIN_S, self._look)

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self._draw)

    @work(exclusive=True, group="pick", exit_on_error=False)
    async def _look(self) -> None:
        try:
            found = await self._pick()
        except Refused as refusal:
            self._refusal = refusal
        else:
            self._refusal = None
            self._found = found
            self._place = max(0, min(self._place, len(found) - 1))
        self._draw()

    def _draw(self) -> None:
        width = self._list.size.width
        if not width:
            return
        if self._refusal is not None:
            self._list.show(refusal_rows(self._refusal, width))
        elif self._found is None:
            self._list.show([(("looking for runs…", "muted"),)])
        elif not self._found:
            self._list.show(TEACH)
        else:
            room = max(1, self._list.size.height - 1)
            self._list.show(list_rows(self._found, self._place, width, room))

    def action_attach(self) -> None:
        if self._found:
            self.post_message(self.Chosen(self._found[self._place]))

    def action_refresh(self) -> None:
        self._look()

    def action_select_up(self) -> None:
        self._select(-1)

    def action_select_down(self) -> None:
        self._select(1)

    def on_click(self, event: events.Click) -> None:
        place = event.y - 3  # title, padding, heading
        if event.widget is self._list and self._found and 0 <= place < len(self._found):
            self._place = place
            self._draw()

    def _select(self, by: int) -> None:
        if self._found:
            self._place = (self._place + by) % len(self._found)
            self._draw()


def list_rows(found: Sequence[Found], place: int, width: int, room: int) -> list[Row]:
    """The heading and at most ``room`` runs around the selected one."""
    layout = lay_out(COLUMNS, width)
    top = max(0, min(place - room // 2, len(found) - room))
    rows = [layout.heading()]
    rows += [_run(run, top + index == place, layout) for index, run in enumerate(found[top : top + room])]
    return rows


def _run(run: Found, selected: bool, layout: Layout) -> Row:
    phase: Span
    if not run.alive:
        phase = (f"■ {run.phase or 'ended'}", "muted")
    elif run.phase == "ready":
        phase = ("✓ ready", "good")
    else:
        phase = (f"◉ {phase_words(run.phase)}" if run.phase else fmt.UNKNOWN, "busy")
    tone = "strong" if selected else "plain"
    cells: dict[str, Cell] = {
        "mark": ("▶" if selected else " ", "key"),
        "label": (run.label, tone),
        "model": (run.model or fmt.UNKNOWN, tone),
        "tp": (fmt.number(run.tp), "plain"),
        "port": (fmt.number(run.port), "plain"),
        "phase": phase,
        "age": (fmt.duration(run.age_s), "plain"),
        "pid": (fmt.number(run.pid), "muted"),
        "origin": ("launched" if run.launched else "found", "muted"),
    }
    return layout.row(cells)
