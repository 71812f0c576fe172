"""Kill: what will end, a confirmation, and then each step until nothing is left or what is left is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import work

from launchmon.format import one_line, plural, wrap
from launchmon.session_like import SessionLike
from launchmon.tui.panels.header import run_name
from launchmon.tui.widgets.dialog import Dialog
from launchmon.tui.widgets.facts import refusal_rows
from launchmon.tui.widgets.lines import Row
from launchmon.victim import Victim
from launchmon_agent.errors import Refused
from launchmon_agent.events import Action

STEP_GLYPHS = {"doing": ("◉", "busy"), "done": ("✓", "good"), "failed": ("✗", "bad")}

NO_NODES: Mapping[int, str] = {}
"""Number → name, of a run on one target."""


class KillScreen(Dialog):
    """``y`` stops the server in its own order, ``!`` without grace; closing does not undo what was begun."""

    BINDINGS: ClassVar = [
        ("y", "go(False)", "kill"),
        ("exclamation_mark", "go(True)", "kill without grace"),
        ("escape,n,q", "close", "close"),
    ]
    DEFAULT_CSS = """
    KillScreen > Vertical { border: round $error; border-title-color: $text-error; }
    """

    def __init__(self, session: SessionLike) -> None:
        super().__init__(session, "kill-lines")
        self._plan: Sequence[Victim] | None = None
        self._refusal: Refused | None = None
        self._before = frozenset(session.model.actions)
        self._began = False
        self._returned = False

    def on_mount(self) -> None:
        self._ask_plan()

    # ---------------------------------------------------------------------------------------------------------- actions

    def action_go(self, force: bool) -> None:
        if self._plan and not self._began:
            self._began = True
            self._kill(force)
            self.draw()

    @work(group="kill-plan", exit_on_error=False)
    async def _ask_plan(self) -> None:
        try:
            self._plan = await self._session.kill_plan()
        except Refused as refusal:
            self._refusal = refusal
        except (ConnectionError, OSError) as error:
            self._refusal = Refused("the target cannot be asked what would end", str(error))
        self.draw()

    def _kill(self, force: bool) -> None:
        # A worker of the app, not of this screen: closing the dialog must not stop a kill half way.
        self.app.run_worker(self._killing(force), group="kill", exit_on_error=False)

    async def _killing(self, force: bool) -> None:
        try:
            await self._session.kill(force)
        except Refused as refusal:
            self._refusal = refusal
        except (ConnectionError, OSError) as error:
            self._refusal = Refused(
                "the connection was lost during the kill", str(error), "attach again to see what is left"
            )
        self._returned = True
        self.draw()

    # ---------------------------------------------------------------------------------------------------------- drawing

    def content(self, width: int, most: int) -> tuple[str, Sequence[Row]]:
        steps = self._steps()
        failed = self._refusal is not None or any(step.state == "failed" for step in latest_steps(steps))
        over = self._returned and not failed
        self.set_class(over, "-over")
        self.set_class(failed, "-failed")
        if self._began:
            rows = progress_rows(steps, self._refusal, self._returned, width)
        else:
            names = {node.number: node.name for node in self._session.nodes}
            rows = question_rows(self._plan, self._refusal, width, most, names)
        return title(run_name(self._session.model.run), self._began, over, failed), rows

    def _steps(self) -> list[Action]:
        """Steps of the kill begun here."""
        return [
            step
            for id_, steps in self._session.model.actions.items()
            if id_ not in self._before
            for step in steps
            if step.action == "kill"
        ]


def title(name: str, began: bool, over: bool, failed: bool) -> str:
    if over:
        return f"✓ {name} is stopped"
    if failed:
        return f"✗ {name}: not all went well"
    return f"◉ Stopping {name}" if began else f"Kill {name}?"


def question_rows(
    plan: Sequence[Victim] | None, refusal: Refused | None, width: int, most: int, nodes: Mapping[int, str] = NO_NODES
) -> list[Row]:
    """What will end, at most ``most`` rows; below the name of each of several ``nodes`` what ends there."""
    if refusal is not None:
        return [*refusal_rows(refusal, width), (), (("Esc", "key"), (" close", "plain"))]
    if plan is None:
        return [(("Asking what would end…", "muted"),)]
    if not plan:
        return [(("Nothing of this run is alive.", "plain"),), (), (("Esc", "key"), (" close", "plain"))]
    choices: list[Row] = [
        (),
        (("y", "key"), (" stop: ask the launcher, wait a while, then force", "plain")),
        (("!", "key"), (" force at once, no grace", "plain")),
        (("Esc", "key"), (" leave it alone", "plain")),
    ]
    head: list[Row] = [((f"This ends {plural(len(plan), 'process', 'processes')}:", "strong"),)]
    room = max(1, most - len(head) - len(choices))
    return head + _listed(plan, nodes, room) + choices


def _listed(plan: Sequence[Victim], nodes: Mapping[int, str], room: int) -> list[Row]:
    """At most ``room`` rows, shared by the nodes where not all fit."""
    groups = [[one for one in plan if one.node == number] for number in dict.fromkeys(one.node for one in plan)]
    several = groups[0][0].node is not None
    all_fit = len(plan) + several * len(groups) <= room
    share = max(1, room // len(groups) - several)
    rows: list[Row] = []
    for group in groups:
        if several:
            number = group[0].node or 0
            count = plural(len(group), "process", "processes")
            rows.append(((f"{nodes.get(number, f'node {number}')}: {count}", "strong"),))
        listed = group if all_fit or len(group) <= share else group[: share - 1]
        rows += [
            ((f"{one.pid:>8}  ", "plain"), (f"{one.rank or one.role:<12}  ", "strong"), (one.title or "", "muted"))
            for one in listed
        ]
        if len(listed) < len(group):
            rows.append(((f"{'':>8}  and {len(group) - len(listed)} more", "muted"),))
    return rows[:room]


def progress_rows(steps: Sequence[Action], refusal: Refused | None, returned: bool, width: int) -> list[Row]:
    """The steps so far, then how it ended."""
    rows = step_rows(latest_steps(steps), width)
    if refusal is not None:
        rows += [(), *refusal_rows(refusal, width)]
    closing = "close" if returned else "close; the kill goes on"
    return [*rows, (), (("Esc", "key"), (f" {closing}", "plain"))]


def step_rows(steps: Sequence[Action], width: int) -> list[Row]:
    """Each step with its state; a word that it begins where there is none yet."""
    rows: list[Row] = []
    for step in steps:
        glyph, tone = STEP_GLYPHS.get(step.state, ("·", "muted"))
        lines = wrap(one_line(f"{step.step}  {step.text}"), width - 2)
        rows.append(((f"{glyph} ", tone), (lines[0], "plain")))
        rows += [((f"  {line}", "plain"),) for line in lines[1:]]
    return rows or [(("◉ ", "busy"), ("beginning", "plain"))]


def latest_steps(steps: Sequence[Action]) -> list[Action]:
    """Each step once, in order, with its newest state."""
    latest: dict[tuple[str, str], Action] = {}
    for step in steps:
        latest[step.id, step.step] = step
    return list(latest.values())
