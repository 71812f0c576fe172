"""Numbers as short texts of a predictable width. Pure. ``None`` (unknown) is always ``–``, never 0."""

from __future__ import annotations

import functools
import re

from rich.cells import cell_len, set_cell_size

UNKNOWN = "–"

KIB = 1024
GIB = 1024**3

_SPARKS = "▁▂▃▄▅▆▇"  # without █, with which rows above each other run together
_SPACES = re.compile(r"\s+")
_JOINER = "\u200d"
"""Zero width joiner. Rich gives what follows it no cells, whatever that is; most terminals draw it in its own."""


def duration(seconds: float | None) -> str:
    """``0.4s``, ``4s``, ``4m58s``, ``1h02m``, ``3d04h``: at most five characters up to 99 days."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        seconds = 0.0
    if seconds < 0.95:
        return f"{seconds:.1f}s"
    whole = int(seconds + 0.5) if seconds < 10 else int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h"


def clock(seconds: float | None) -> str:
    """Elapsed time as ``00:05:41``; ``26:00:00`` after a day."""
    if seconds is None:
        return "--:--:--"
    whole = max(0, int(seconds))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def age(seconds: float) -> str:
    """How old a value is: ``0.4 s``, ``12 s``, then as :func:`duration`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    if seconds < 60:
        return f"{int(seconds)} s"
    return duration(seconds)


def size(count: float | None) -> str:
    """Bytes in binary units, at most five characters: ``0 B``, ``812K``, ``3.9G``, ``79G``, ``1.2T``."""
    if count is None:
        return UNKNOWN
    if count < 1000:
        return f"{int(count)} B"
    value = float(count)
    for unit in "KMGTP":
        value /= KIB
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < 1000 or unit == "P":
            return f"{value:.0f}{unit}"
    raise AssertionError("unreachable: the last unit always returns")


def rate(bytes_per_second: float | None) -> str:
    """``0 B/s``, ``1.2G/s``."""
    return UNKNOWN if bytes_per_second is None else f"{size(bytes_per_second)}/s"


def gib(count: float | None) -> str:
    """Bytes as GiB without the unit, for a column that names it: ``76.0``, ``0.4``, ``141``."""
    if count is None:
        return UNKNOWN
    value = count / GIB
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def used_of(used: float | None, total: float | None) -> str:
    """GPU memory as ``76.0/96``; the total is rounded, as in the product's name."""
    if used is None and total is None:
        return UNKNOWN
    whole = UNKNOWN if total is None else f"{total / GIB:.0f}"
    return f"{gib(used)}/{whole}"


def percent(value: float | None, digits: int = 0) -> str:
    """``62%``, ``0.4%``; ``100%`` and more without decimals, so that the width stays."""
    if value is None:
        return UNKNOWN
    if value >= 99.95:
        digits = 0
    return f"{value:.{digits}f}%"


def number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def thousands(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def bar(fraction: float | None, width: int) -> tuple[str, str]:
    """A bar of ``width`` cells in two parts: filled up to ``fraction`` (0…1), and the rest. Unknown is dotted."""
    if fraction is None:
        return "", "·" * width
    halves = round(min(1.0, max(0.0, fraction)) * width * 2)
    full, half = divmod(halves, 2)
    filled = "━" * full + "╸" * half
    return filled, "─" * (width - len(filled))


def sparkline(values: list[float | None], width: int, top: float = 100.0) -> str:
    """The last ``width`` values as one row, newest right; a gap where a value is unknown or not there yet."""
    recent = values[-width:] if width > 0 else []
    marks = []
    for value in recent:
        if value is None:
            marks.append(" ")
        else:
            level = int(min(1.0, max(0.0, value / top)) * (len(_SPARKS) - 1) + 0.5)
            marks.append(_SPARKS[level])
    return "".join(marks).rjust(width)


def plural(count: int, one: str, many: str = "") -> str:
    """``1 rank``, ``8 ranks``."""
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"


def span_of(values: list[float | None], spell: str = "{:.0f}") -> str:
    """Several values as one text: ``41``, ``38–44`` when they differ, ``–`` when none is known."""
    known = [value for value in values if value is not None]
    if not known:
        return UNKNOWN
    low, high = spell.format(min(known)), spell.format(max(known))
    return low if low == high else f"{low}–{high}"


def one_line(text: str) -> str:
    """Runs of white space, line ends included, as one space."""
    return _SPACES.sub(" ", text).strip()


def clip(text: str, width: int) -> str:
    """At most ``width`` cells; what was cut off is said by ``…``."""
    if width <= 0:
        return ""
    text = text.replace(_JOINER, "")
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


@functools.lru_cache(maxsize=4096)
def fit(text: str, width: int, align: str = "left") -> str:
    """Exactly ``width`` cells. Kept: most cells of a table hold what they held a second ago."""
    text = clip(text, width)
    room = " " * max(0, width - cell_len(text))
    return room + text if align == "right" else text + room


def wrap(text: str, width: int) -> list[str]:
    """Words over lines of at most ``width`` cells; a longer word is broken. At least one line."""
    width = max(1, width)
    text = text.replace(_JOINER, "")
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        candidate = f"{line} {word}" if line else word
        if cell_len(candidate) <= width:
            line = candidate
            continue
        if line:
            lines.append(line)
        while cell_len(word) > width:
            head = set_cell_size(word, width).rstrip() or word[:1]
            lines.append(head)
            word = word[len(head) :]
        line = word
    lines.append(line)
    return lines
