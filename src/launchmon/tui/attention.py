"""Calls a person who looks elsewhere: the bell (which tmux turns into a window alert) and a desktop notice (OSC 9)."""

from __future__ import annotations

from textual.app import App

from launchmon_agent.events import Verdict

WORTH_A_CALL = frozenset(
    {
        *("ready", "crashed", "stopped", "rank-missing", "one-behind", "waiting-lock", "waiting-peer"),
        *("deadlock-silent", "deadlock-spinning", "deadlock-divergent", "hung-serving"),
    }
)
"""Verdicts that decide something, or that wait for somebody to do something."""


class Attention:
    """Calls once for each change to a verdict that is worth it; not for the one that is found at the beginning."""

    def __init__(self) -> None:
        self._kind: str | None = None

    def look(self, app: App[object], verdict: Verdict | None) -> None:
        if verdict is None or verdict.verdict == self._kind:
            return
        first, self._kind = self._kind is None, verdict.verdict
        if first or verdict.verdict not in WORTH_A_CALL:
            return
        app.bell()
        driver = app._driver  # noqa: SLF001 - Textual has no public way to send a control sequence of another's making
        if driver is not None and not app.is_headless:
            driver.write(notice(f"launchmon: {verdict.verdict}: {verdict.summary}"))


def notice(text: str) -> str:
    """OSC 9, as iTerm2, kitty, WezTerm and Windows Terminal read it. Nothing in the text can end it early."""
    safe = "".join(character for character in text if character.isprintable())[:200]
    return f"\x1b]9;{safe}\x1b\\"
