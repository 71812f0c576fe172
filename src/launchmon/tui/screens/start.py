"""Start the next attempt: what ends first, a confirmation, and then each step until it has started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import work
from textual.message import Message

from launchmon.format import one_line, plural, wrap
from launchmon.session_like import SessionLike
from launchmon.tui.screens.kill import step_rows
from launchmon.tui.widgets.dialog import Dialog
from launchmon.tui.widgets.facts import refusal_rows
from launchmon.tui.widgets.lines import Row
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action, Run

STEPS_OF = ("kill", "relaunch")
"""Actions of which a relaunch consists."""


class StartScreen(Dialog):
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

    def __init__(self, session: SessionLike, change: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        """``change`` are arguments of the session's ``relaunch``, ``plan`` what it said would come of them."""
        super().__init__(session, "start-lines")
        self._change = dict(change)
        self._plan = plan
        self._ends: int | None = None  # processes of the old run
        self._refusal: Refused | None = None
        self._under_way = False
        self._began = False
        self._before = frozenset(session.model.actions)
        self._steps: dict[tuple[str, str], Action] = {}  # kept here: the session's model is soon another run's

    def on_mount(self) -> None:
        self._ask_what_ends()

    # ---------------------------------------------------------------------------------------------------------- actions

    def action_go(self, force: bool = False, anyway: bool = False) -> None:
        offered = self._refusal is not None or (not self._began and not anyway)
        if self._ends is not None and not self._under_way and offered:
            self._under_way = self._began = True
            self._refusal = None
            self._steps.clear()
            self._before = frozenset(self._session.model.actions)
            # A worker of the app, not of this screen: closing the dialog must not stop it half way.
            self.app.run_worker(self._relaunch(force, anyway), group="relaunch", exit_on_error=False)
            self.draw()

    @work(group="what-ends", exit_on_error=False)
    async def _ask_what_ends(self) -> None:
        try:
            self._ends = len(await self._session.kill_plan())
        except Refused as refusal:
            self._refusal = refusal
        except (ConnectionError, OSError) as error:
            self._refusal = Refused("the target cannot be asked what would end", str(error))
        self.draw()

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
        self.draw()
        if self._refusal is not None and not self.is_attached:
            what = ". ".join(part for part in (self._refusal.what, self._refusal.cause) if part)
            app.notify(f"✗ No attempt was started: {one_line(what)}", severity="error", markup=False)

    # ---------------------------------------------------------------------------------------------------------- drawing

    def session_changed(self) -> None:
        for id_, steps in self._session.model.actions.items():
            if id_ not in self._before:
                self._steps |= {(id_, step.step): step for step in steps if step.action in STEPS_OF}
        super().session_changed()

    def content(self, width: int, most: int) -> tuple[str, Sequence[Row]]:  # noqa: ARG002
        failed = self._refusal is not None
        self.set_class(failed, "-failed")
        if self._began:
            rows = progress_rows(list(self._steps.values()), self._refusal, self._under_way, width)
        else:
            rows = question_rows(self._plan, self._ends, self._refusal, width)
        return title(self._plan["attempt"], self._began, self._under_way, failed), rows


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
