"""The screen in ASCII, for a terminal or a locale that has nothing else. One filter over everything that is painted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

UNICODE = "unicode"
ASCII = "ascii"

_PLAIN_TERMINALS = ("linux", "dumb", "vt100", "vt102", "vt220", "ansi", "cons25")
"""Values of ``TERM`` whose fonts lack most of the glyphs; Linux's console has 512 characters in all."""

_PAIRS = {
    # states and marks
    "✓": "+", "✗": "x", "◉": "*", "○": "o", "◌": ".", "⊘": "/", "●": "*", "■": "#", "◆": "#", "◇": "o",
    "▸": ">", "▶": ">", "▾": "v", "▲": "^", "▼": "v", "↷": "~", "⚠": "!", "★": "*", "☆": ".",
    # writing
    "–": "-", "—": "-", "…": "~", "·": "|", "×": "x", "‹": "<", "›": ">", "°": "'", "≥": ">", "≤": "<", "≈": "~",
    "±": "+", "•": "*", "“": '"', "”": '"', "‘": "'", "’": "'", "«": "<", "»": ">", "µ": "u", "⇧": "^",
    "↑": "^", "↓": "v", "←": "<", "→": ">", "↵": "<", "⏎": "<",
    # bars and sparklines, low to high
    "━": "=", "╸": "-", "╺": "-", "─": "-", "│": "|", "▁": "_", "▂": ".", "▃": ":", "▄": "-",
    "▅": "=", "▆": "+", "▇": "*", "█": "#",
    "▏": "|", "▎": "|", "▍": "|", "▌": "|", "▋": "#",
    "▊": "#", "▉": "#", "▐": "|", "▔": "-", "▕": "|", "░": ".", "▒": ":", "▓": "#",
    # frames
    "╭": "+", "╮": "+", "╰": "+", "╯": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+",
    "┴": "+", "┼": "+", "┃": "|", "═": "=", "║": "|", "╔": "+", "╗": "+", "╚": "+", "╝": "+", "┏": "+", "┓": "+",
    "┗": "+", "┛": "+", "┣": "+", "┫": "+", "╴": "-", "╶": "-", "╷": "|", "╵": "|", "╹": "|", "╻": "|",
}  # fmt: skip
"""Glyph → one ASCII character of the same meaning. Everything else is shown as ``?``, for each of its cells."""

_TABLE = str.maketrans(_PAIRS)


def fitting(environment: Mapping[str, str]) -> str:
    """Which glyphs this terminal can show, where the person chose none.

    The locale decides as for all programs: the first of ``LC_ALL``, ``LC_CTYPE`` and ``LANG`` that is set. Where none
    is, as in most containers, the terminal is taken for one of today.
    """
    if environment.get("TERM", "") in _PLAIN_TERMINALS:
        return ASCII
    locale = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "")
    return UNICODE if not locale or "utf8" in locale.lower().replace("-", "") else ASCII


@lru_cache(maxsize=4096)
def ascii_text(text: str) -> str:
    """The text in ASCII, in as many cells."""
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return text if text.isascii() else "".join(char if char.isascii() else "?" * cell_len(char) for char in text)


class AsciiFilter(LineFilter):
    """Turns every glyph into an ASCII character."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002  (Textual's signature)
        return [Segment(ascii_text(text), style, control) for text, style, control in segments]
