"""Colours that a theme does not name, worked out from those that it names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.color import Color

READABLE = 4.5
"""The least contrast of a text and its ground: WCAG 2.2, level AA."""

MEANINGS = ("primary", "accent", "success", "warning", "error")
"""Colours in which text is written; each has a variable ``text-NAME``."""

GROUNDS = ("background", "surface", "panel")

_RAISED = {"surface": 0.04, "panel": 0.08}
"""How far from the background towards the foreground the other grounds are."""

_MUTED = 0.6
"""How far from the background towards the foreground muted text is, at least."""


def completed(colors: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """All colours: grounds and foreground follow the background that was named, all else is as in ``base``."""
    whole = {**base, **colors}
    if "background" in colors and "foreground" not in colors:
        whole["foreground"] = readable(Color.parse(base["foreground"]), [Color.parse(whole["background"])]).hex
    for name, share in _RAISED.items():
        if "background" in colors and name not in colors:
            whole[name] = _between(whole["background"], whole["foreground"], share).hex
    return whole


def texts(colors: Mapping[str, str]) -> dict[str, str]:
    """The variables for toned text: each meaning's own colour, moved until it can be read on every ground."""
    grounds = [Color.parse(colors[name]) for name in GROUNDS]
    written = {f"text-{name}": readable(Color.parse(colors[name]), grounds).hex for name in MEANINGS}
    muted = _between(colors["background"], colors["foreground"], _MUTED)
    return {**written, "text-muted": readable(muted, grounds).hex}


def readable(color: Color, grounds: Iterable[Color]) -> Color:
    """The colour, or the nearest one on its way to black or white that can be read on every one of the grounds."""
    grounds = list(grounds)
    ends = (Color(255, 255, 255), Color(0, 0, 0))
    far = max(ends, key=lambda end: min(contrast(end, ground) for ground in grounds))
    for step in range(21):
        moved = color.blend(far, step / 20, 1)
        if all(contrast(moved, ground) >= READABLE for ground in grounds):
            return moved
    return far


def contrast(one: Color, other: Color) -> float:
    """WCAG 2's contrast ratio, from 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    parts = [value / 255 for value in color.rgb]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _between(one: str, other: str, share: float) -> Color:
    return Color.parse(one).blend(Color.parse(other), share, 1)
