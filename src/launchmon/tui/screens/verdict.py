"""The whole verdict on a screen of its own: what it rests on, what is ruled out, what is not known, what to do."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult

from launchmon.actions import in_scope
from launchmon.format import wrap
from launchmon.session_like import SessionLike
from launchmon.tui.bindings import bindings
from launchmon.tui.panels.footer import FooterBar
from launchmon.tui.panels.verdict import heading, rows
from launchmon.tui.screens.following import FollowingScreen
from launchmon.tui.screens.relaunch import RelaunchScreen
from launchmon.tui.screens.stacks import StacksScreen
from launchmon.tui.view import View
from launchmon.tui.widgets.facts import indented, paragraph
from launchmon.tui.widgets.lines import Row
from launchmon.tui.widgets.pager import Pager
from launchmon_agent.events import Next, Verdict
from launchmon_agent.stacks.ranges import label

WIDEST = 110
"""Cells: longer lines are hard to read."""


class VerdictScreen(FollowingScreen):
    SCOPES = ("verdict", "panel", "paging")
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "All that the verdict rests on. It follows the run: what is shown is what launchmon makes of it now. "
        "evidence are the numbers it saw, ruled out are the other explanations and why they do not hold, not known is "
        "what could not be learnt and would have helped. Next steps come with their reason and where it is from."
    )
    CSS_PATH = "verdict.tcss"

    def __init__(self, session: SessionLike) -> None:
        super().__init__(session, "verdict-header")
        self._pager = Pager(id="verdict-all")
        self._verdict: Verdict | None = None

    def compose(self) -> ComposeResult:
        yield self.header
        yield self._pager
        yield FooterBar(in_scope("verdict", "app"))

    def on_mount(self) -> None:
        self._pager.focus()

    def session_changed(self) -> None:
        if self.is_mounted and self.session.model.verdict is not self._verdict:
            self.look()

    def look(self) -> None:
        view = View.of(self.session)
        self._verdict = view.model.verdict
        self.header.look(view)
        width = self._pager.size.width
        if width:
            title, tone = heading(view.model.verdict)
            head: list[Row] = [((" ", "plain"), (title, tone if tone != "muted" else "strong"))]
            self._pager.fill(head, [(), *indented(whole(view, min(WIDEST, width - 4)))])

    # ---------------------------------------------------------------------------------------------------------- actions

    def action_verdict_stacks(self) -> None:
        self.app.push_screen(StacksScreen(self.session))

    def action_verdict_relaunch(self) -> None:
        self.app.push_screen(RelaunchScreen(self.session))

    def action_leave_verdict(self) -> None:
        self.app.pop_screen()

    def action_line_up(self) -> None:
        self._pager.scroll_rows(-1)

    def action_line_down(self) -> None:
        self._pager.scroll_rows(1)

    def action_page_up(self) -> None:
        self._pager.scroll_pages(-1)

    def action_page_down(self) -> None:
        self._pager.scroll_pages(1)

    def action_to_start(self) -> None:
        self._pager.to_start()

    def action_to_end(self) -> None:
        self._pager.to_end()

    def action_focus_next(self) -> None:
        self.focus_next()

    def action_focus_previous(self) -> None:
        self.focus_previous()


def whole(view: View, width: int) -> list[Row]:
    """All of the verdict, in sections. Pure."""
    verdict = view.model.verdict
    if verdict is None:
        return rows(view, width)
    out = paragraph(verdict.summary or "No summary.", width, "strong")
    for section in (_blames(verdict, width), _next(verdict, width), _evidence(verdict, width)):
        out += section
    out += _ruled_out(verdict, width) + _unknown(verdict, width)
    notices = [row for notice in view.model.notices for row in _bullet(f"{notice.source}: {notice.text}", width)]
    return out + _section("about the watching", notices)


def _blames(verdict: Verdict, width: int) -> list[Row]:
    return _section("look first at", _bullet(label(verdict.blames), width)) if verdict.blames else []


def _next(verdict: Verdict, width: int) -> list[Row]:
    return _section("next", [row for at, step in enumerate(verdict.next, 1) for row in _step(at, step, width)])


def _step(number: int, step: Next, width: int) -> list[Row]:
    words = " ".join([step.do, *step.change])
    out: list[Row] = []
    for at, line in enumerate(wrap(words, max(10, width - 4))):
        out.append(((f"  {number} " if at == 0 else "    ", "key"), (line, "strong")))
    for text, tone in ((step.why, "plain"), (f"source: {step.source}" if step.source else "", "muted")):
        if text:
            out += [(("    ", "plain"), (line, tone)) for line in wrap(text, max(10, width - 4))]
    return out


def _evidence(verdict: Verdict, width: int) -> list[Row]:
    return _section("evidence", _pairs([(item.what, item.value) for item in verdict.evidence], width))


def _ruled_out(verdict: Verdict, width: int) -> list[Row]:
    return _section("ruled out", _pairs([(item.kind, item.because) for item in verdict.ruled_out], width))


def _unknown(verdict: Verdict, width: int) -> list[Row]:
    return _section("not known", [row for text in verdict.unknown for row in _bullet(text, width)])


def _pairs(pairs: list[tuple[str, str]], width: int) -> list[Row]:
    """Names in a column, what is said of each beside it; below it where a name is too long for that."""
    column = min(24, max((len(name) for name, _ in pairs), default=0))
    out: list[Row] = []
    for name, text in pairs:
        lines = wrap(text, max(10, width - column - 4))
        if len(name) > column:
            out.append((("  ", "plain"), (name, "plain")))
            name = ""
        for at, line in enumerate(lines):
            out.append((("  ", "plain"), (f"{name if at == 0 else '':<{column}}  ", "plain"), (line, "strong")))
    return out


def _bullet(text: str, width: int) -> list[Row]:
    return [
        (("  · " if at == 0 else "    ", "muted"), (line, "plain"))
        for at, line in enumerate(wrap(text, max(10, width - 4)))
    ]


def _section(title: str, body: list[Row]) -> list[Row]:
    return [(), ((title.upper(), "title"),), *body] if body else []
