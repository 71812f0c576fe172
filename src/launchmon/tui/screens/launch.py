"""A new launch for people who have no command yet: rows to fill in, and the command that comes of them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from textual import work
from textual.message import Message

from launchmon.session_like import SessionLike
from launchmon.tui.beginning import LauncherLike
from launchmon.tui.bindings import bindings
from launchmon.tui.launch import rows
from launchmon.tui.launch.form import (
    MODEL,
    PYTHON,
    Built,
    Installed,
    Item,
    build,
    completion,
    installed_of,
    items,
    taken,
)
from launchmon.tui.relaunch.draft import in_prompt_words
from launchmon.tui.screens.choosing import ChoosingScreen
from launchmon.tui.widgets.facts import indented, refusal_rows
from launchmon.tui.widgets.lines import Lines, Row
from launchmon.tui.widgets.prompt import Prompt
from launchmon_agent.codec import Malformed
from launchmon_agent.errors import Refused

Begin = Callable[[], Awaitable[LauncherLike]]

ADD = "--flag=VALUE or NAME=VALUE"


class LaunchScreen(ChoosingScreen[Item]):
    """Starts nothing until :class:`Agreed` is sent. ``begin`` reaches the machine."""

    SCOPES = ("launch",)
    BINDINGS = bindings(*SCOPES)
    HELP: ClassVar[str] = (
        "A new launch. Enter fills the selected row in; Space takes its value out, or turns a switch on and off; a "
        "adds any other flag of SGLang, or a variable. Flags and values are checked against the SGLang of the Python "
        "in the first row. What is shown as the command is exactly what will be started; below it is what is known "
        "to speak against it. The server goes on when launchmon is closed."
    )
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  (Textual's own form)
    CSS_PATH = "launch.tcss"

    class Agreed(Message):
        """The launch is to be started."""

        def __init__(self, screen: LaunchScreen, start: Callable[[], Awaitable[SessionLike]]) -> None:
            super().__init__()
            self.screen = screen
            self.start = start

    def __init__(self, begin: Begin) -> None:
        title = Lines(id="launch-title")
        super().__init__("launch", title, "launch-result")
        self._title = title
        self._begin = begin
        self._launcher: LauncherLike | None = None
        self._handed_over = False
        self._installed: Installed | None = None
        self._built = Built()
        self._plan: Mapping[str, Any] | None = None
        self._planned: Built | None = None  # what the plan, or the trouble, is of
        self._trouble: Refused | None = None
        self._asking = False
        self._asked = ""  # the row that the prompt is about; "": any flag or variable
        self._found: Mapping[str, Any] | None = None  # directories

    def on_mount(self) -> None:
        self._read_options(None)

    async def on_unmount(self) -> None:
        if self._launcher is not None and not self._handed_over:
            await self._launcher.close()

    # --------------------------------------------------------------------------------------------------------- reading

    @work(group="options", exclusive=True, exit_on_error=False)
    async def _read_options(self, python: str | None) -> None:
        """The flags of a Python. One that cannot be used leaves the prompt open, or the form without rows."""
        try:
            if self._launcher is None:
                self._launcher = await self._begin()
            self._installed = installed_of(await self._launcher.options(python))
        except (Refused, Malformed, ConnectionError, OSError) as error:
            if self._installed is None:
                self._trouble = _refused(error)
                self.look()
            else:
                self._typed_refusal = _refused(error)
                self._draw_hints()
        else:
            self._close_prompt()
            self._changed()

    def _changed(self) -> None:
        """Something else is filled in: the command is built at once, the target is asked when it can be."""
        if self._installed is None:
            return
        self._built = build(self._installed, self.draft)
        if not self._asking and self._built.refusal is None:
            self._asking = True
            self._ask_plan()
        self.look()

    @work(group="plan", exit_on_error=False)
    async def _ask_plan(self) -> None:
        """One question at a time, until the answer is about the newest command."""
        try:
            while self._launcher is not None and self._built.refusal is None and self._planned != self._built:
                asked = self._built
                try:
                    self._plan, self._trouble = await self._launcher.plan(asked.argv, asked.env), None
                except (Refused, ConnectionError, OSError) as error:
                    self._plan, self._trouble = None, _refused(error)
                self._planned = asked
        finally:
            self._asking = False
        self.look()

    @work(group="directories", exclusive=True, exit_on_error=False)
    async def _look_for_directories(self, text: str, complete: bool = False) -> None:
        """``complete``: the text goes on as far as all that begin with it agree."""
        if self._launcher is None:
            return
        try:
            self._found = await self._launcher.directories(text)
            longer = completion(text, self._found) if complete else ""
            if longer and self._prompt.open and self._asked == MODEL and self._prompt.text == text:
                self._prompt.put(longer)
                self._found = await self._launcher.directories(longer)
        except (Refused, ConnectionError, OSError):
            self._found = None
        self._draw_hints()

    # --------------------------------------------------------------------------------------------------------- drawing

    @property
    def items(self) -> list[Item]:
        return [] if self._installed is None else items(self._installed, self.draft)

    def look(self) -> None:
        if not self.is_mounted or not self._list.size.width:
            return
        where = "" if self._launcher is None else f" on {self._launcher.target}"
        version = None if self._installed is None else self._installed.flags.version
        words: Row = ((f"   SGLang {version}", "muted"),) if version else ()
        self._title.show([((" launchmon ", "key"), (f" a new launch{where}", "plain"), *words)])
        self._draw_list()
        self._draw_result()

    def _draw_list(self) -> None:
        shown = self.items
        self._selected = max(0, min(self._selected, len(shown) - 1))
        head: Row = ((" ", "plain"), ("LAUNCH", "title"))
        if not shown:
            waiting = "see what is wrong below" if self._trouble else "looking for Pythons, and reading SGLang's flags…"
            self._list.fill([head], [(), ((f" {waiting}", "muted"),)])
            return
        body, where, self._owners = rows.list_rows(shown, self._selected, self._list.size.width)
        self._list.fill([head], body, where)

    def _draw_result(self) -> None:
        width = self._result.size.width
        head: Row = ((" ", "plain"), ("COMMAND LINE", "title"), ("  y copies", "muted"))
        if self._installed is None:
            body = [] if self._trouble is None else indented(refusal_rows(self._trouble, width))
            self._result.fill([head], body)
            return
        fresh = self._planned == self._built
        trouble, cwd = self._trouble if fresh else None, self._installed.cwd
        self._result.fill([head], rows.result_rows(self._built, self._plan, trouble, width, fresh=fresh, cwd=cwd))

    def _draw_hints(self) -> None:
        """Above the prompt: what is wrong with the text, else what it may become."""
        width = self.size.width
        shown: list[Row] = []
        if self._typed_refusal is not None:
            shown = indented(refusal_rows(in_prompt_words(self._typed_refusal), width - 2))
        elif self._prompt.open and self._installed is not None:
            shown = rows.offered_rows(self._asked, self._prompt.text, self._installed, self._found, width)
        self._hints.show(shown)
        self._hints.set_class(bool(shown), "-shown")

    # --------------------------------------------------------------------------------------------------------- actions

    def action_launch_start(self) -> None:
        self._start(anyway=False)

    def action_launch_anyway(self) -> None:
        self._start(anyway=True)

    def _start(self, *, anyway: bool) -> None:
        launcher, built = self._launcher, self._built
        if launcher is None or self._installed is None or self._handed_over:
            return
        if built.refusal is not None:
            self.notify(f"This cannot be started: {built.refusal.what}.", severity="warning", markup=False)
            return
        why = self._speaks_against()
        if why and not anyway:
            self.notify(f"{why} ! starts it all the same.", severity="warning", markup=False)
            return
        self.post_message(self.Agreed(self, lambda: launcher.launch(built.argv, built.env, anyway=anyway)))

    def _speaks_against(self) -> str:
        """What the target has said of this very command that makes a start hopeless."""
        if self._plan is None or self._planned != self._built:
            return ""
        hopeless = [one["what"] for one in self._plan["findings"] if one["severity"] == "error"]
        if self._plan["refused"] is not None:
            hopeless = [self._plan["refused"]["what"]]
        return f"{hopeless[0]}." if hopeless else ""

    def handed_over(self) -> None:
        """The launcher has become the session of the run."""
        self._handed_over = True

    def action_field_edit(self) -> None:
        item = self._item
        if item is None:
            return
        if item.is_switch:
            self.action_field_flip()
        else:
            self._ask(item.name, item.label, item.value or "")

    def action_field_flip(self) -> None:
        item = self._item
        if item is None or item.name == PYTHON:
            return
        if item.value is not None:
            self.draft.take(item.name)
        elif item.is_switch:
            self.draft.put(item.name)
        else:
            self._ask(item.name, item.label, "")
            return
        self._changed()

    def action_field_add(self) -> None:
        if self._installed is not None:
            self._ask("", ADD, "")

    def action_launch_copy(self) -> None:
        """As it would be started, with what is hidden on the screen."""
        if self._built.argv:
            variables = [f"{name}={shlex.quote(value or '')}" for name, value in sorted(self._built.env.items())]
            self.app.copy_to_clipboard(" ".join([*variables, shlex.join(self._built.argv)]))
            self.notify("Copied the command line, through the terminal (OSC 52).", markup=False)

    def action_leave_launch(self) -> None:
        self.app.pop_screen()

    action_field_up = ChoosingScreen.select_above
    action_field_down = ChoosingScreen.select_below
    action_field_first = ChoosingScreen.select_first
    action_field_last = ChoosingScreen.select_last
    action_result_up = ChoosingScreen.result_page_up
    action_result_down = ChoosingScreen.result_page_down

    def _use(self) -> None:
        self.action_field_edit()

    # ---------------------------------------------------------------------------------------------------------- prompt

    def _ask(self, name: str, label: str, text: str) -> None:
        self._asked, self._typed_refusal, self._found = name, None, None
        self._prompt.ask(name, label, text)
        if name == MODEL:
            self._look_for_directories(text)
        self._draw_hints()

    def on_prompt_edited(self, event: Prompt.Edited) -> None:
        self._typed_refusal = None
        if event.what == MODEL:
            self._look_for_directories(event.text)
        else:
            self._draw_hints()

    def on_prompt_completed(self, event: Prompt.Completed) -> None:
        if event.what == MODEL:
            self._look_for_directories(event.text, complete=True)

    def on_prompt_answered(self, event: Prompt.Answered) -> None:
        text = (event.text or "").strip()
        if event.text is None and self._installed is not None:
            self.workers.cancel_group(self, "options")  # its answer would close whatever prompt is open then
        if event.text is None or self._installed is None or (not text and event.what in ("", PYTHON)):
            self._close_prompt()
        elif event.what == PYTHON:
            self._read_options(os.path.expanduser(text))
        elif not text:
            self.draft.take(event.what)
            self._close_prompt()
            self._changed()
        else:
            self._take(text if event.what == "" else f"{event.what}={_value(event.what, text)}")

    def _take(self, text: str) -> None:
        """Take what was typed where the server would; else the prompt stays, with what is wrong."""
        assert self._installed is not None
        try:
            self.draft = taken(self.draft, text, self._installed)
        except Refused as refusal:
            self._typed_refusal = refusal
            self._draw_hints()
        else:
            self._close_prompt()
            self._changed()


def _value(name: str, text: str) -> str:
    """No shell comes between, which would replace ``~``; ``dir/`` and ``dir`` are one model."""
    if name != MODEL:
        return text
    return os.path.expanduser(text).rstrip("/") or "/" if text.startswith(("~", "/", ".")) else text


def _refused(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, Malformed):
        return Refused("the agent's answer makes no sense", str(error), "launchmon doctor")
    return Refused("the target cannot be asked", str(error), "launchmon doctor")
