"""The first screen without a run: the runs that were found here, or how to get one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.message import Message
from textual.worker import Worker

from launchmon import format as fmt
from launchmon.actions import by_id, in_scope
from launchmon.listed import Found, Place
from launchmon.tui.bindings import bindings
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.panels.rail import phase_words
from launchmon.tui.screens.described import DescribedScreen
from launchmon.tui.widgets.facts import refusal_rows
from launchmon.tui.widgets.lines import Lines, Row, Span
from launchmon.tui.widgets.table import Cell, Column, Layout, lay_out
from launchmon_agent.errors import Refused

Pick = Callable[[], Awaitable[Sequence[Found]]]
Places = Callable[[], Sequence[Place]]

BEGIN = {
    "launch": ("new launch", "a form: model, sizes, usual flags; it shows the command"),
    "demo": ("demo", "a simulated launch that dead-locks; needs no GPU"),
}
"""What can be begun from here, and what that is."""

LOOK_AGAIN_S = 3.0
LABEL = 34
"""Cells for the name of a machine."""

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

TEACH_DEMO: Row = (
    ("launchmon demo", "key"),
    ("                      see it work, without a GPU or SGLang", "plain"),
)
TEACH: tuple[Row, ...] = (
    (("No SGLang run was found on this machine.", "strong"),),
    (),
    TEACH_DEMO,
    (("launchmon launch -- COMMAND…", "key"), ("        start a server, which outlives launchmon", "plain")),
    (("launchmon attach --pid PID", "key"), ("          watch a server that was not found", "plain")),
    (("launchmon attach user@host", "key"), ("          look on another machine", "plain")),
    (),
    (("A server that starts now appears here by itself.", "muted"),),
)


class HomeScreen(DescribedScreen):
    SCOPES = ("home",)
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "Runs on a machine: those that launchmon started there, and others that it found by their processes. "
        "Attaching changes nothing about a run; leaving does not stop it. Other machines are those of your SSH "
        "configuration, and those where you have been; Enter looks for runs there. n opens a form for a new launch, "
        "on the machine that is selected. The demo ends with the screen."
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

    class Elsewhere(Message):
        """Runs are to be looked for on another machine."""

        def __init__(self, place: Place) -> None:
            super().__init__()
            self.place = place

    class Wanted(Message):
        """A launch by the form, or the demo, is to be begun: a key of :data:`BEGIN`. ``place``: None for this machine,
        or the one that the screen is about."""

        def __init__(self, what: str, place: Place | None) -> None:
            super().__init__()
            self.what = what
            self.place = place

    def __init__(
        self,
        pick: Pick,
        places: Places | None = None,
        *,
        there: str | None = None,
        place: Place | None = None,
        begin: Sequence[str] = (),
    ) -> None:
        """``places``: other machines, asked for once. ``there``: the machine, when it is another one; ``place``: as it
        was chosen from the list. ``begin``: what can be begun, keys of :data:`BEGIN`.

        Runs are looked for every few seconds, unless ``there``: each look is a login.
        """
        super().__init__()
        self._pick = pick
        self._there = there
        self._about = place
        self._begin = tuple(begin)
        self._places = () if places is None else tuple(places())
        self._found: Sequence[Found] | None = None
        self._refusal: Refused | None = None
        self._selected = 0
        self._wanted: Found | str | Place | None = None  # what the person chose, also while it is not listed
        self._looking: Worker[None] | None = None
        self._shown: list[int | None] = []
        self._title = Lines(id="home-title")
        self._list = Lines(id="home-list")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._list
        yield FooterBar(in_scope("home", "app"))

    def on_mount(self) -> None:
        where = "" if self._there is None else f" on {self._there}"
        back: Row = () if not self._is_nested else (("   Esc", "key"), (" all machines", "muted"))
        self._title.show([((" launchmon ", "key"), (f" pick a run{where}", "plain"), *back)])
        self._look_again()
        if self._there is None:
            self.set_interval(LOOK_AGAIN_S, self._look_again)

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self._draw)

    def _look_again(self) -> None:
        """One look at a time: on a slow machine it takes longer than the time to the next."""
        if self._looking is None or self._looking.is_finished:
            self._looking = self._look()

    @work(exclusive=True, group="pick", exit_on_error=False)
    async def _look(self) -> None:
        found: Sequence[Found] = ()
        try:
            found = await self._pick()
        except Refused as refusal:
            self._refusal = refusal
        else:
            self._refusal = None
        self._found = found
        self._selected = self._place_of(self._wanted)
        if self._refusal is None and self._wanted is None:
            self._wanted = self._item
        self._draw()

    def _place_of(self, wanted: Found | str | Place | None) -> int:
        """Where that item of the list is now; of one that is gone, what stands in its place."""
        items = self._items
        if isinstance(wanted, Found):
            runs = [(at, item) for at, item in enumerate(items) if isinstance(item, Found)]
            same = [(at, run) for at, run in runs if run.selector == wanted.selector]
            exactly = [at for at, run in same if (run.target, run.pid) == (wanted.target, wanted.pid)]
            found = exactly or [at for at, _ in same]
        else:
            found = [at for at, item in enumerate(items) if item == wanted]
        return found[0] if found else max(0, min(self._selected, len(items) - 1))

    @property
    def _is_nested(self) -> bool:
        """It was opened from the list of all machines."""
        stack = self.app.screen_stack
        return self in stack[1:] and isinstance(stack[stack.index(self) - 1], HomeScreen)

    @property
    def _items(self) -> Sequence[Found | str | Place]:
        """Runs, then keys of :data:`BEGIN`, then other machines."""
        return [*(self._found or ()), *self._begin, *self._places]

    @property
    def _item(self) -> Found | str | Place | None:
        """The selected one."""
        items = self._items
        return items[self._selected] if items else None

    def _draw(self) -> None:
        width, height = self._list.size
        if not width:
            return
        head: list[Row] = []
        rows: list[tuple[Row, int | None]] = []
        if self._refusal is not None:
            rows = [(row, None) for row in refusal_rows(self._refusal, width)]
        elif self._found is None:
            rows = [((("looking for runs…", "muted"),), None)]
        elif self._found:
            layout = lay_out(COLUMNS, width)
            head = [layout.heading()]
            rows = [(_run(run, at == self._selected, layout), at) for at, run in enumerate(self._found)]
        elif self._there is not None:
            rows = [((("No SGLang run was found there.", "strong"),), None)]
        else:
            known = [row for row in TEACH if "demo" not in self._begin or row != TEACH_DEMO]
            rows = [(row, None) for row in known]
        first = len(self._found or ())
        if self._begin:
            rows += [((), None), (((" start", "muted"),), None)]
            rows += [(_beginning(what, at == self._selected), at) for at, what in enumerate(self._begin, first)]
            first += len(self._begin)
        if self._places:
            rows += [((), None), (((" other machines", "muted"),), None)]
            rows += [(_row(place, at == self._selected), at) for at, place in enumerate(self._places, first)]
        room = max(1, height - len(head))
        selected = next((row for row, (_, item) in enumerate(rows) if item == self._selected), 0)
        top = max(0, min(selected - room // 2, len(rows) - room))
        shown = rows[top : top + room]
        self._shown = [*(None for _ in head), *(item for _, item in shown)]
        self._list.show([*head, *(row for row, _ in shown)])

    def action_attach(self) -> None:
        item = self._item
        if item is None:
            return
        if isinstance(item, Found):
            self.post_message(self.Chosen(item))
        elif isinstance(item, Place):
            self.post_message(self.Elsewhere(item))
        elif item == "launch":
            self.action_new_launch()
        else:
            self.post_message(self.Wanted(item, None))

    def action_new_launch(self) -> None:
        """On the machine that is selected, else on the one that the screen is about."""
        if "launch" not in self._begin:
            self.notify("No launch can be started from here: name one target.", severity="warning")
            return
        item = self._item
        self.post_message(self.Wanted("launch", item if isinstance(item, Place) else self._about))

    def action_refresh(self) -> None:
        self.notify("Looking again…", timeout=1)
        self._looking = self._look()

    def action_leave_place(self) -> None:
        if self._is_nested:
            self.app.pop_screen()

    def action_select_up(self) -> None:
        self._select(-1)

    def action_select_down(self) -> None:
        self._select(1)

    def on_click(self, event: events.Click) -> None:
        row = event.screen_y - self._list.content_region.y
        if event.widget is self._list and 0 <= row < len(self._shown):
            item = self._shown[row]
            if item is not None:
                self._choose(item)

    def _select(self, by: int) -> None:
        if self._items:
            self._choose((self._selected + by) % len(self._items))

    def _choose(self, place: int) -> None:
        self._selected = place
        self._wanted = self._item
        self._draw()


def _row(place: Place, selected: bool) -> Row:
    label = fmt.one_line(place.label)
    return (
        (" ▶ " if selected else "   ", "key"),
        (f" {fmt.fit(label, LABEL)} ", "strong" if selected else "plain"),
        (place.note, "muted"),
    )


def _beginning(what: str, selected: bool) -> Row:
    label, words = BEGIN[what]
    key = by_id("new-launch").shown_keys if what == "launch" else ""
    return (
        (" ▶ " if selected else "   ", "key"),
        (f" {fmt.fit(label, 12)} ", "strong" if selected else "plain"),
        (f"{key:<2}", "key"),
        (words, "muted"),
    )


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
