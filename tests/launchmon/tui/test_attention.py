"""When a person who looks elsewhere is called, and with what."""

from __future__ import annotations

import pytest

from launchmon.config import Config
from launchmon.tui.app import LaunchmonApp
from launchmon.tui.attention import Attention, notice
from launchmon_agent.events import Verdict


class Bell(LaunchmonApp):
    """An app that counts its bells and is shown nowhere."""

    def __init__(self) -> None:
        super().__init__(None, pick=lambda: None, attach=lambda _: None)  # type: ignore[arg-type,return-value]
        self.rung = 0

    def bell(self) -> None:
        self.rung += 1


@pytest.mark.parametrize(
    ("kinds", "rung"),
    [
        (["starting", "reading", "compiling", "starting"], 0),
        (["ready"], 0),  # found so: no news
        (["starting", "ready"], 1),
        (["starting", "deadlock-silent", "deadlock-silent", "computing", "deadlock-silent"], 2),
        (["ready", "hung-serving", "ready", "crashed"], 3),
    ],
)
def test_the_bell_rings_once_for_each_change_that_decides(kinds: list[str], rung: int) -> None:
    app, attention = Bell(), Attention(Config())
    attention.look(app, None, "kimi")
    for at, kind in enumerate(kinds):
        attention.look(app, Verdict(float(at), verdict=kind), "kimi")
    assert app.rung == rung


@pytest.mark.parametrize("text", ["plain", "\x1b]0;title\x07", "a\x07b\x1b\\c\x9c", "x" * 5000, "\u202eevil\n"])
def test_nothing_in_the_text_can_end_the_notice_or_begin_another_sequence(text: str) -> None:
    body = notice(text).removeprefix("\x1b]9;").removesuffix("\x1b\\")
    assert body.isprintable()
    assert len(body) <= 200
