"""Calls a person who looks elsewhere: the bell (which tmux turns into a window alert), a notice (OSC 9), the title."""

from __future__ import annotations

from typing import Any

from textual.app import App

from launchmon.config import Config
from launchmon_agent.events import Verdict


class Attention:
    """Calls once for each change to a verdict that is worth it; not for the one that is found at the beginning.

    The title of the terminal, or of the pane inside tmux, tells the newest verdict all the time.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._kind: str | None = None
        self._title = ""

    def look(self, app: App[Any], verdict: Verdict | None, name: str) -> None:
        """``name``: of the run, for the title."""
        kind = None if verdict is None else verdict.verdict
        if self._config.terminal_title:
            self._tell(app, f"{name}: {kind} - launchmon" if kind else f"{name} - launchmon")
        if verdict is None or kind == self._kind:
            return
        first, self._kind = self._kind is None, kind
        if first or kind not in self._config.alerts:
            return
        if self._config.bell:
            app.bell()
        if self._config.osc9:
            send(app, notice(f"launchmon: {kind}: {verdict.summary}"))

    def _tell(self, app: App[Any], title: str) -> None:
        if title != self._title:
            self._title = title
            send(app, titled(title))


def send(app: App[Any], sequence: str) -> None:
    """Write a control sequence of our own making to the terminal; nothing where there is none."""
    driver = app._driver  # noqa: SLF001 - Textual has no public way to do so
    if driver is not None and not app.is_headless:
        driver.write(sequence)


def notice(text: str) -> str:
    """OSC 9, as iTerm2, kitty, WezTerm and Windows Terminal read it. Nothing in the text can end it early."""
    return f"\x1b]9;{_safe(text)}\x1b\\"


def titled(text: str) -> str:
    """OSC 2: the title of the window, or of the pane inside tmux. Nothing in the text can end it early."""
    return f"\x1b]2;{_safe(text)}\x1b\\"


SAVE_TITLE = "\x1b[22;2t"
RESTORE_TITLE = "\x1b[23;2t"
"""XTWINOPS: puts the title on a stack and takes it back, where the terminal has one (xterm, kitty, tmux from 3.3)."""


def _safe(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:200]
