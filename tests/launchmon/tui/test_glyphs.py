"""The screen where there is nothing but ASCII, and the terminals and locales for which that is so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from launchmon.tui import glyphs
from launchmon.tui.glyphs import AsciiFilter, ascii_text
from tests.support import fake_session as fake
from tests.support.tui_rig import PLAIN, running


@pytest.mark.parametrize("glyph", glyphs._PAIRS)
def test_each_glyph_becomes_one_ascii_character(glyph: str) -> None:
    assert ascii_text(glyph).isascii()
    assert len(ascii_text(glyph)) == cell_len(glyph) == 1


def test_the_states_of_a_phase_still_differ() -> None:
    marks = [ascii_text(glyph) for glyph in "✓◉○⊘✗"]
    assert len(set(marks)) == len(marks)


def test_what_has_no_equal_keeps_its_width() -> None:
    assert ascii_text("模型 ok") == "???? ok"
    assert ascii_text("e\u0301") == "e"


def test_styles_and_ascii_text_are_left_alone() -> None:
    segments = [Segment("plain"), Segment("✓ done")]
    assert AsciiFilter().apply(segments, Color(0, 0, 0)) == [Segment("plain"), Segment("+ done")]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, glyphs.UNICODE),
        ({"TERM": "xterm", "LANG": "de_DE.UTF-8"}, glyphs.UNICODE),
        ({"TERM": "tmux-256color", "LANG": "C.utf8"}, glyphs.UNICODE),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, glyphs.ASCII),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, glyphs.UNICODE),
        ({"LANG": "de_DE.ISO-8859-1"}, glyphs.ASCII),
        ({"LANG": "POSIX"}, glyphs.ASCII),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, glyphs.UNICODE),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, glyphs.ASCII),
        ({"TERM": "vt100"}, glyphs.ASCII),
    ],
)
def test_the_glyphs_fit_the_terminal(environment: dict[str, str], expected: str) -> None:
    assert glyphs.fitting(environment) == expected


KEYS = ((), ("question_mark",), ("escape", "v"), ("escape", "d"), ("escape", "k"), ("escape", "r"))
"""From one screen to the next."""


async def test_every_screen_is_ascii() -> None:
    async with running(fake.kept(), (80, 24), replace(PLAIN, glyphs="ascii")) as rig:
        for keys in KEYS:
            await rig.press(*keys)
            assert rig.screen_text().isascii()


async def test_every_glyph_of_every_screen_has_an_equal() -> None:
    async with running(fake.kept(), (120, 40)) as rig:
        for keys in KEYS:
            await rig.press(*keys)
            assert {glyph for glyph in rig.screen_text() if not glyph.isascii()} <= set(glyphs._PAIRS)
