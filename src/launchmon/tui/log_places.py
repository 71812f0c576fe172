"""Places in a log to go to: the next of several, a phase, a traceback, and what ``:`` takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launchmon_agent.errors import Refused
from launchmon_agent.events import LogError, Mark
from launchmon_agent.log.moment import is_moment

_TRACEBACK = "Traceback (most recent call last)"
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)%")
_LINE = re.compile(r"\d[\d,]*")


@dataclass(frozen=True)
class Next:
    """``place`` of ``of``, from 1; ``wrapped``: it was found from the other end."""

    offset: int
    place: int
    of: int
    wrapped: bool


@dataclass(frozen=True)
class Target:
    """Where ``:`` leads: one of these is set."""

    offset: int | None = None
    line: int | None = None
    moment: str | None = None
    share: float | None = None  # of the file, 0…1
    name: str = ""  # of the place at ``offset``


def next_of(offsets: Iterable[int], here: int | None, forward: bool) -> Next | None:
    """The next of these lines behind ``here``, or before it; round the end of the file where there is none."""
    known = sorted(set(offsets))
    if not known:
        return None
    if forward:
        beyond = [offset for offset in known if here is None or offset > here]
        target, wrapped = (beyond[0], False) if beyond else (known[0], True)
    else:
        beyond = [offset for offset in known if here is None or offset < here]
        target, wrapped = (beyond[-1], False) if beyond else (known[-1], True)
    return Next(target, known.index(target) + 1, len(known), wrapped)


def phase_begins(marks: Iterable[Mark]) -> dict[str, int]:
    """Phase → offset of the first line that tells of it, whichever rank's; in the order of the log."""
    found: dict[str, int] = {}
    for mark in sorted(marks, key=lambda mark: mark.offset):
        if mark.phase is not None:
            found.setdefault(mark.phase, mark.offset)
    return found


def tracebacks(errors: Iterable[LogError]) -> list[int]:
    """Offsets of the lines that open one, of any rank."""
    return sorted(error.offset for error in errors if _TRACEBACK in error.text)


def failures(errors: Iterable[LogError]) -> list[int]:
    """Offsets of errors that are more than warnings; of all, where there is none."""
    known = list(errors)
    serious = [error.offset for error in known if error.severity != "warning"]
    return sorted(serious or [error.offset for error in known])


def target(text: str, phases: dict[str, int], errors: Sequence[LogError]) -> Target:
    """What a person typed: a line number, ``62%``, a time, a phase, ``error`` or ``traceback``.

    A phase may be cut short. Raises :class:`Refused` for anything else.
    """
    text = text.strip()
    share = _PERCENT.fullmatch(text)
    if share is not None:
        return Target(share=min(1.0, float(share[1]) / 100))
    if _LINE.fullmatch(text):
        return Target(line=int(text.replace(",", "")))
    if is_moment(text):
        return Target(moment=text)
    named = {"error": failures(errors)[:1], "traceback": tracebacks(errors)[:1]}
    places = {**phases, **{name: found[0] for name, found in named.items() if found}}
    wanted = text.lower().replace(" ", "-")
    fitting = [name for name in places if name.startswith(wanted)] if wanted else []
    if fitting:
        return Target(offset=places[fitting[0]], name=fitting[0])
    if wanted and any(name.startswith(wanted) for name in named):
        raise Refused(f"there is no {text} in the log")
    known = ", ".join(places)
    raise Refused(
        f"{text!r} is no place in this log",
        "it takes a line number, 62%, 18:00:41, -5m (before the end), +90s (of the launch)"
        + (f", or: {known}" if known else ""),
    )
