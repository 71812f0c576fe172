"""Relaunch: choose what is changed, see at once what comes of it, and start it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import work

from launchmon.session_like import SessionLike
from launchmon.tui.bindings import bindings
from launchmon.tui.panels.header import HeaderBar
from launchmon.tui.panels.verdict import heading
from launchmon.tui.relaunch import rows
from launchmon.tui.relaunch.draft import Base, Draft, base_of, base_of_attempt, in_prompt_words, words_of
from launchmon.tui.relaunch.items import Group, Item, editable, flip, items
from launchmon.tui.screens.choosing import ChoosingScreen
from launchmon.tui.screens.ladder import LadderScreen
from launchmon.tui.screens.start import StartScreen
from launchmon.tui.view import View
from launchmon.tui.widgets.facts import indented, refusal_rows
from launchmon.tui.widgets.lines import Row
from launchmon.tui.widgets.prompt import Prompt
from launchmon_agent.errors import Refused

REFRESH_S = 1.0
TROUBLE = ("bad", "warn")
"""Tones of verdicts for which the first remedy is on from the start."""

ASK = "add --flag=VALUE, drop --flag, NAME=VALUE, unset NAME"
ASK_SHORT = "add"


class RelaunchScreen(ChoosingScreen[Item]):
    """Changes nothing until :class:`StartScreen` is told to. ``back_to`` is an earlier attempt of the series."""

    SCOPES = ("relaunch",)
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "Start this run again with something changed. On top are the remedies that public experience shows for this "
        "verdict, the first one switched on; below, what is often changed, by concern (Space opens one), then the "
        "command as it is, and the variables. a types any other change: --flag=VALUE, drop --flag, NAME=VALUE, "
        "unset NAME. Flags are checked against the SGLang that is installed there. What is shown as changes and as "
        "command line is what would be started: + comes, - goes, ~ has another value. l tries the remedies by "
        "itself, one after the other. Nothing is ended or started before you have confirmed."
    )
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  (Textual's own form)
    CSS_PATH = "relaunch.tcss"

    def __init__(self, session: SessionLike, *, back_to: str | None = None) -> None:
        header = HeaderBar(id="relaunch-header")
        super().__init__("relaunch", header, "relaunch-plan")
        self._header = header
        self.session = session
        self._back_to = back_to
        self._base: Base | None = None
        self._opened: set[str] = set()
        self._plan: Mapping[str, Any] | None = None
        self._planned: tuple[str, ...] | None = None  # the choices that the plan, or its refusal, is of
        self._refusal: Refused | None = None
        self._asking = False
        self._start_when_planned = False

    def on_mount(self) -> None:
        self.set_interval(REFRESH_S, self._look_at_header)
        self._read_options()

    # --------------------------------------------------------------------------------------------------------- reading

    @work(group="options", exit_on_error=False)
    async def _read_options(self) -> None:
        try:
            options = await self.session.relaunch_options()
            if self._back_to is None:
                self._base = base_of(options)
                if self._base.remedies and heading(self.session.model.verdict)[1] in TROUBLE:
                    self.draft.put(*self._base.remedies[0].change)
            else:
                plan = await self.session.relaunch_plan(back_to=self._back_to)
                self._base = base_of_attempt(options, await self._attempt(), plan["argv"], plan["env"])
        except (Refused, ConnectionError, OSError) as error:
            self._refusal = _refused(error)
            self.look()
        else:
            self._changed()

    async def _attempt(self) -> int:
        """The number of the attempt to go back to."""
        ledger = await self.session.ledger()
        return next((int(one["attempt"]) for one in ledger["attempts"] if one["id"] == self._back_to), 1)

    def _changed(self) -> None:
        """Other choices: ask what comes of them, one question at a time, until the answer is about the newest."""
        if not self._asking and self._base is not None and self._planned != self.draft.words:
            self._asking = True
            self._ask_plan()
        self.look()

    @work(group="plan", exit_on_error=False)
    async def _ask_plan(self) -> None:
        try:
            while self._planned != self.draft.words:
                asked = self.draft.words
                try:
                    self._plan = await self.session.relaunch_plan(**self._request(self.draft))
                    self._refusal = None
                except (Refused, ConnectionError, OSError) as error:
                    self._refusal = _refused(error)
                self._planned = asked
        finally:
            self._asking = False
        self.look()
        if self._start_when_planned:
            self._start_when_planned = False
            if self.is_active:
                self.action_start()

    def _request(self, draft: Draft) -> dict[str, Any]:
        return {**draft.request, "back_to": self._back_to}

    @work(group="typed", exclusive=True, exit_on_error=False)
    async def _take_typed(self, text: str) -> None:
        """Take a typed change where the server would; else the prompt stays, with what is wrong."""
        word = words_of(text)
        try:
            candidate = self.draft.with_(word)
            await self.session.relaunch_plan(**self._request(candidate))
        except (Refused, ConnectionError, OSError) as error:
            self._typed_refusal = _refused(error)
            self._draw_hints(text)
        else:
            self.draft.put(word)
            self._close_prompt()
            self._changed()

    # --------------------------------------------------------------------------------------------------------- drawing

    @property
    def items(self) -> list[Item]:
        return [] if self._base is None else items(self._base, self.draft, self._opened)

    def look(self) -> None:
        if not self.is_mounted or not self._list.size.width:
            return
        self._look_at_header()
        self._draw_list()
        self._draw_result()

    def _look_at_header(self) -> None:
        self._header.look(View.of(self.session))

    def _draw_list(self) -> None:
        shown = self.items
        self._selected = max(0, min(self._selected, len(shown) - 1))
        title, tone = heading(self.session.model.verdict)
        of = "" if self._base is None else f" attempt {self._base.attempt}"
        head: Row = ((" ", "plain"), (f"RELAUNCH{of}", "title"), ("  ", "plain"), (title, tone))
        if self._base is None:
            waiting = "cannot be relaunched: see below" if self._refusal else "reading the command and SGLang's flags…"
            self._list.fill([head], [(), ((f" {waiting}", "muted"),)])
            return
        body, where, self._owners = rows.list_rows(shown, self._selected, self.draft, self._list.size.width)
        self._list.fill([head], body, where)

    def _draw_result(self) -> None:
        width = self._result.size.width
        fresh = self._planned == self.draft.words
        head: Row = ((" ", "plain"), ("WHAT CHANGES", "title"))
        if self._plan is not None and self._base is not None:
            head = (*head, (f"  in attempt {self._plan['attempt']}", "muted"))
        if self._base is not None and not fresh:
            head = (*head, ("  …", "busy"))
        body: list[Row] = []
        if self._refusal is not None:
            body = indented(refusal_rows(in_prompt_words(self._refusal), width - 2))
        elif self._plan is not None:
            body = rows.plan_rows(self._plan, width)
        self._result.fill([head], body)

    def _draw_hints(self, text: str) -> None:
        """Above the prompt: what is wrong with the text, else the flags that it may become."""
        width = self.size.width
        if self._typed_refusal is not None:
            shown = indented(refusal_rows(in_prompt_words(self._typed_refusal), width - 2))
        else:
            shown = [] if self._base is None else rows.suggestion_rows(text, self._base, width)
        self._hints.show(shown)
        self._hints.set_class(bool(shown), "-shown")

    # --------------------------------------------------------------------------------------------------------- actions

    def action_start(self) -> None:
        if self._base is None or self._planned != self.draft.words:
            if self._refusal is None:
                self._start_when_planned = True  # typed ahead of the answer
            return
        if self._refusal is not None or self._plan is None:
            self.notify("This cannot be started: see what is wrong with it.", severity="warning")
        else:
            self.app.push_screen(StartScreen(self.session, self._request(self.draft), self._plan))

    def action_flip(self) -> None:
        item = self._item
        if item is None:
            return
        if isinstance(item.subject, Group):
            self._opened ^= {item.subject.concern}
            self.look()
        elif flip(item, self.draft):
            self._changed()
        else:
            self.notify("It is removed already: e gives it a value.", severity="warning")

    def action_add_change(self) -> None:
        self._ask("")

    def action_edit_change(self) -> None:
        item = self._item
        if item is not None and not isinstance(item.subject, Group):
            self._ask(editable(item, self.draft))

    def _ask(self, text: str) -> None:
        if self._base is None:
            return
        self._typed_refusal = None
        self._prompt.ask("change", ASK_SHORT if self.has_class("-narrow") else ASK, text)
        self._draw_hints(text)

    def action_take_back(self) -> None:
        """All choices, for the command as it was."""
        if not self.draft.words:
            self.notify("Nothing is changed.")
            return
        self.draft = Draft()
        self._changed()

    def action_copy_command(self) -> None:
        if self._plan is None:
            self.notify("The command line is not known yet.", severity="warning")
        else:
            self.app.copy_to_clipboard(self._plan["command"])
            self.notify(
                "Copied the command line. A terminal without OSC 52 ignores that: then launchmon relaunch "
                "--dry-run prints it.",
                markup=False,
            )

    def action_ladder(self) -> None:
        if self._base is None:
            return
        if self._base.remedies:
            self.app.push_screen(LadderScreen(self.session, self._base))
        else:
            self.notify("There is no remedy to try: what the verdict names is offered on top.", severity="warning")

    def action_leave_relaunch(self) -> None:
        self.app.pop_screen()

    action_choice_up = ChoosingScreen.select_above
    action_choice_down = ChoosingScreen.select_below
    action_choice_first = ChoosingScreen.select_first
    action_choice_last = ChoosingScreen.select_last
    action_plan_up = ChoosingScreen.result_page_up
    action_plan_down = ChoosingScreen.result_page_down

    def _use(self) -> None:
        self.action_flip()

    # ---------------------------------------------------------------------------------------------------------- events

    def on_prompt_edited(self, event: Prompt.Edited) -> None:
        self._typed_refusal = None
        self._draw_hints(event.text)

    def on_prompt_answered(self, event: Prompt.Answered) -> None:
        if event.text is None or not event.text.strip():
            self.workers.cancel_group(self, "typed")  # its answer would close whatever prompt is open then
            self._close_prompt()
        else:
            self._take_typed(event.text)


def _refused(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    return Refused("the target cannot be asked", str(error), "attach again")
