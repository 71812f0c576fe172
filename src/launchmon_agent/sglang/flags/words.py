"""A server's command as words and the flags they belong to. Pure.

With the flag list of the installed SGLang it is known how many words a flag takes and what a shortened one means; where
a flag is not known it takes the words up to the next one that begins with ``--``, as a reader would guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launchmon_agent.sglang.command import parse
from launchmon_agent.sglang.flags.model import MAYBE, SWITCH, VALUE, Flag, FlagList

NOTHING_KNOWN = FlagList((), source="none", complete=False)


@dataclass(frozen=True)
class Given:
    """A flag as a command gives it: the words ``argv[begin:end]``."""

    written: str  # "--tp"
    name: str  # its full name, or as written where that is not known
    values: tuple[str, ...]
    begin: int
    end: int
    equals: bool  # written --flag=VALUE
    flag: Flag | None = None

    @property
    def text(self) -> str:
        return " ".join((self.name, *self.values))


def given(argv: Sequence[str], flags: FlagList = NOTHING_KNOWN) -> list[Given]:
    """The flags of a command in its order. Empty for a command that names no SGLang server."""
    command = parse(argv)
    if not command.is_sglang:
        return []
    found: list[Given] = []
    place = len(argv) - len(command.flags)
    while place < len(argv):
        word = argv[place]
        if not word.startswith("--") or word == "--":
            place += 1  # the model of "sglang serve MODEL"
            continue
        found.append(_given(argv, place, flags))
        place = found[-1].end
    return found


def is_given(argv: Sequence[str], name: str, flags: FlagList = NOTHING_KNOWN) -> Given | None:
    """The last time that a flag is given, under any of its names: the one that counts for argparse."""
    flag = flags.find(name)
    names = {name} if flag is None else set(flag.spellings)
    return next((one for one in reversed(given(argv, flags)) if one.name in names), None)


def written(name: str, values: Sequence[str], equals: bool = False) -> tuple[str, ...]:
    """The words that give a flag these values. A value that looks like an option is bound by ``=``."""
    if len(values) == 1 and (equals or values[0].startswith("-")):
        return (f"{name}={values[0]}",)
    return (name, *values)


def _given(argv: Sequence[str], place: int, flags: FlagList) -> Given:
    name, equals, value = argv[place].partition("=")
    flag = flags.find(name)
    full = flags.full_name(name) or name
    if equals:
        return Given(name, full, (value,), place, place + 1, True, flag)
    end = _end(argv, place + 1, None if flag is None else flag.takes)
    return Given(name, full, tuple(argv[place + 1 : end]), place, end, False, flag)


def _end(argv: Sequence[str], place: int, takes: str | None) -> int:
    """Behind the last value of a flag whose values may begin at ``place``."""
    if takes == SWITCH:
        return place
    end = place
    while end < len(argv) and not argv[end].startswith("--"):
        end += 1
    return min(end, place + 1) if takes in (VALUE, MAYBE) else end
