"""Numbers and names as the verdicts say them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from launchmon_agent.stacks.ranges import label

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def span(seconds: float) -> str:
    """``9 s``, ``4m58s``, ``2h05m``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def size(count: float) -> str:
    """``512 B``, ``4.9 MiB``, ``76 GiB``."""
    amount = float(count)
    for unit in _UNITS:
        if abs(amount) < 1024 or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" or abs(amount) >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes everything")


def part(done: float, total: float) -> str:
    """``41 of 547 GiB``: both in the unit of the whole."""
    whole = size(total)
    unit = whole.partition(" ")[2]
    amount = done / 1024 ** _UNITS.index(unit)
    return f"{amount:.0f} of {whole}" if unit == "B" or amount >= 10 else f"{amount:.1f} of {whole}"


def rate(bps: float) -> str:
    return f"{size(bps)}/s"


def names(ranks: Iterable[str]) -> str:
    """``TP0-2,4-7``."""
    return label(ranks)


def who(rank: str) -> str:
    """At the beginning of a sentence."""
    return rank[:1].upper() + rank[1:]


def verb(ranks: Sequence[object], one: str, many: str) -> str:
    return one if len(ranks) == 1 else many


def listed(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]
