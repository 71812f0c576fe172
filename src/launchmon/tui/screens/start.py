"""Start the next attempt: what ends first, a confirmation, and then each step until it has started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen

from launchmon.tui.format import one_line, plural, wrap
from launchmon.tui.protocol import SessionLike
from launchmon.tui.screens.kill import refusal_rows, step_rows
from launchmon.tui.widgets.lines import Lines, Row
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action, Run

REFRESH_S = 0.25
STEPS_OF = ("kill", "relaunch")
"""Actions of which a relaunch consists."""


class StartScreen(ModalScreen[None]):
    """``y`` relaunches. Closing does not undo what was begun; :class:`Relaunched` goes to the app when it is done."""

    class Relaunched(Message):
        """The session follows this run now."""

        def __init__(self, run: Run) -> None:
            super().__init__()
            self.run = run

    BINDINGS: ClassVar = [
        ("y", "go", "start"),
        ("exclamation_mark", "go(True)", "start, ending the old one without grace"),
        ("a", "go(False, True)", "start whatever the preflight says"),
        ("escape,n,q", "close", "close"),
    ]
    DEFAULT_CSS = """
    StartScreen { align: center middle; }
    StartScreen > Vertical {
        width: 90%; max-width: 100; height: auto; max-height: 90%;
        border: round $warning; border-title-color: $text-warning; border-title-style: bold;
        background: $surface; padding: 0 1;
    }
    StartScreen.-failed > Vertical { border: round $error; border-title-color: $text-error; }
    """

    def __init__(self, session: SessionLike, change: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        """``change`` are arguments of the session's ``relaunch``, ``plan`` what it said would come of them."""
        super().__init__()
        self._session = session
        self._change = dict(change)
        self._plan = plan
        self._ends: int | None = None  # processes of the old run
        self._refusal: Refused | None = None
        self._under_way = False
        self._began = False
        self._before = frozenset(session.model.actions)
        self._steps: dict[tuple[str, str], Action] = {}  # kept here: the session's model is soon another run's
        self._lines = Lines(id="start-lines")
        self._unsubscribe: Callable[[], None] | None = None
        self._due = False

    def compose(self) -> ComposeResult:
        yield Vertical(self._lines)

    def on_mount(self) -> None:
        self._unsubscribe = self._session.subscribe(self._changed)
        self._ask_what_ends()
        self._draw()

    def on_unmount(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()

    def on_resize(self, _: Resize) -> None:
        self.call_after_refresh(self._draw)

    # ---------------------------------------------------------------------------------------------------------- actions

    def action_go(self, force: bool = False, anyway: bool = False) -> None:
        offered = self._refusal is not None or not anyway
        if self._ends is not None and not self._under_way and offered:
            self._under_way = self._began = True
            self._refusal = None
            self._steps.clear()
            self._before = frozenset(self._session.model.actions)
            # A worker of the app, not of this screen: closing the dialog must not stop it half way.
            self.app.run_worker(self._relaunch(force, anyway), group="relaunch", exit_on_error=False)
            self._draw()

    def action_close(self) -> None:
        self.dismiss()

    @work(group="what-ends", exit_on_error=False)
    async def _ask_what_ends(self) -> None:
        try:
            self._ends = len(await self._session.kill_plan())
        except Refused as refusal:
            self._refusal = refusal
        except (ConnectionError, OSError) as error:
            self._refusal = Refused("the target cannot be asked what would end", str(error))
        self._draw()

    async def _relaunch(self, force: bool, anyway: bool) -> None:
        app = self.app
        try:
            run = await self._session.relaunch(**self._change, force=force, anyway=anyway)
        except Refused as refusal:
            self._refusal = refusal
        except (ConnectionError, OSError) as error:
            self._refusal = Refused(
                "the connection was lost during the relaunch", str(error), "attach again to see what is left"
            )
        else:
            app.post_message(self.Relaunched(run))
        self._under_way = False
        if self.is_mounted:
            self._draw()
        elif self._refusal is not None:
            what = ". ".join(part for part in (self._refusal.what, self._refusal.cause) if part)
            app.notify(f"✗ No attempt was started: {one_line(what)}", severity="error", markup=False)

    # ---------------------------------------------------------------------------------------------------------- drawing

    def _changed(self) -> None:
        for id_, steps in self._session.model.actions.items():
            if id_ not in self._before:
                self._steps |= {(id_, step.step): step for step in steps if step.action in STEPS_OF}
        if not self._due and self.is_mounted:
            self._due = True
            self.set_timer(REFRESH_S, self._draw)

    def _draw(self) -> None:
        self._due = False
        if not self.is_mounted:
            return
        width = max(20, min(100, self.size.width * 9 // 10) - 4)
        most = max(8, self.size.height * 9 // 10 - 2)
        self.set_class(self._refusal is not None, "-failed")
        self.query_one(Vertical).border_title = title(
            self._plan["attempt"], self._began, self._under_way, self._refusal is not None
        )
        if self._began:
            shown = progress_rows(list(self._steps.values()), self._refusal, self._under_way, width)
            self._lines.show(shown[-most:])
        else:
            self._lines.show(question_rows(self._plan, self._ends, self._refusal, width)[-most:])


def title(attempt: int, began: bool, running: bool, failed: bool) -> str:
    if failed:
        return f"✗ attempt {attempt} has not been started"
    if running:
        return f"◉ Starting attempt {attempt}"
    return f"✓ attempt {attempt} has started" if began else f"Start attempt {attempt}?"


def question_rows(plan: Mapping[str, Any], ends: int | None, refusal: Refused | None, width: int) -> list[Row]:
    """What changes, what ends first, and the keys."""
    if refusal is not None:
        return [*refusal_rows(refusal, width), (), (("Esc", "key"), (" back", "plain"))]
    rows: list[Row] = [
        ((part, "strong"),) for line in plan["difference"] or ("nothing changes",) for part in wrap(line, width)
    ]
    if ends is None:
        return [*rows, (), (("Asking what would end…", "muted"),)]
    rows += [(), ((what_ends(ends), "plain"),), ()]
    rows.append((("y", "key"), (" start", "plain")))
    if ends:
        rows.append((("!", "key"), (" start, and end the old run without grace", "plain")))
    return [*rows, (("Esc", "key"), (" not yet", "plain"))]


def what_ends(count: int) -> str:
    """``10 processes of the old run end first.``"""
    if not count:
        return "Nothing of the old run is alive: nothing has to end first."
    verb = "ends" if count == 1 else "end"
    return f"{plural(count, 'process', 'processes')} of the old run {verb} first."


def progress_rows(steps: list[Action], refusal: Refused | None, running: bool, width: int) -> list[Row]:
    rows = step_rows(steps, width)
    if refusal is not None:
        rows += [(), *refusal_rows(refusal, width), ()]
        rows += [
            (("y", "key"), (" try again", "plain")),
            (("a", "key"), (" try again, and start whatever the preflight says", "plain")),
        ]
    else:
        rows.append(())
    closing = "close; the relaunch goes on" if running else "back"
    return [*rows, (("Esc", "key"), (f" {closing}", "plain"))]
