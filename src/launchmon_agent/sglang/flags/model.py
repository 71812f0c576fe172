"""The flag list of one SGLang, and the names by which its flags may be given.

argparse accepts any unambiguous prefix of an option (``--tp`` for ``--tp-size``), so a name that a person wrote is
resolved against the whole list before anything is changed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from launchmon_agent.errors import Refused

NEAR = 0.6
"""Likeness (0…1, of difflib) from which a known name is suggested for one that is not known."""

SURELY_MEANT = 0.85
"""Likeness from which an unknown name is taken for a misspelt one even where the list is not complete."""

SWITCH, VALUE, VALUES, MAYBE = "switch", "value", "values", "maybe"


@dataclass(frozen=True)
class Flag:
    """One option of the server's command line."""

    name: str  # as declared first, "--tp-size"
    aliases: tuple[str, ...] = ()  # its other full names
    takes: str = VALUE  # switch: nothing | value: one word | values: one or more | maybe: one or none
    type: str | None = None  # int | float | str | json, or the name of SGLang's own reader; None: not known
    default: str | None = None  # as Python writes it; None: not known, or computed at the start
    choices: tuple[str, ...] = ()  # empty: free, or not known
    help: str = ""
    negatable: bool = False  # has a --no- form
    deprecated: bool = False
    instead: str | None = None  # what SGLang says to use, where it is deprecated

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    @property
    def spellings(self) -> tuple[str, ...]:
        """All full names, negated ones included."""
        negated = tuple("--no-" + name[2:] for name in self.names) if self.negatable else ()
        return (*self.names, *negated)

    @property
    def is_switch(self) -> bool:
        return self.takes == SWITCH


@dataclass(frozen=True)
class FlagList:
    """``complete``: every flag of that SGLang is in it, so a name that is not there is an error."""

    flags: tuple[Flag, ...]
    version: str | None = None
    source: str = "source"  # source | help | table
    complete: bool = True
    _by_name: Mapping[str, Flag] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Flag] = {}
        for flag in self.flags:
            for name in flag.spellings:
                by_name.setdefault(name, flag)
        object.__setattr__(self, "_by_name", by_name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every full name, sorted."""
        return tuple(sorted(self._by_name))

    def get(self, name: str) -> Flag | None:
        """The flag of a full name."""
        return self._by_name.get(name)

    def full_name(self, written: str) -> str | None:
        """The full name that argparse takes ``written`` for; None where it is unknown or ambiguous."""
        if written in self._by_name:
            return written
        candidates = self.meant_by(written)
        if len({self._by_name[name].name for name in candidates}) == 1:
            return candidates[0]
        return None

    def meant_by(self, written: str) -> tuple[str, ...]:
        """The full names of which ``written`` is a prefix."""
        if not written.startswith("--") or len(written) < 3:
            return ()
        return tuple(name for name in self.names if name.startswith(written))

    def find(self, written: str) -> Flag | None:
        name = self.full_name(written)
        return None if name is None else self._by_name[name]

    def nearest(self, written: str, cutoff: float = NEAR, count: int = 3) -> tuple[str, ...]:
        """Known names that look like one that is not known, the likeliest first."""
        return tuple(difflib.get_close_matches(written, self.names, count, cutoff))

    def has(self, written: str) -> bool | None:
        """Whether this SGLang takes a flag; None: the list does not tell."""
        if self.full_name(written) is not None:
            return True
        return False if self.complete else None

    def resolve(self, written: str) -> str:
        """The full name of what a person wrote. Raises :class:`Refused` with the nearest match.

        A name that an incomplete list does not have is taken as it is, unless it is nearly one that is there.
        """
        name = self.full_name(written)
        if name is not None:
            return name
        if not written.startswith("--"):
            raise Refused(f"{written} is no flag", "SGLang's flags begin with --", f"--add --{written.lstrip('-')}")
        of = f"SGLang {self.version}" if self.version else "this SGLang"
        meant = self.meant_by(written)
        if meant:
            raise Refused(
                f"{written} is ambiguous for {of}: it could be {', '.join(meant)}",
                "argparse takes a shortened flag only where a single one begins so",
                f"--add {meant[0]}",
            )
        nearest = self.nearest(written, NEAR if self.complete else SURELY_MEANT)
        if self.complete:
            raise Refused(
                f"{of} has no flag {written}",
                f"the nearest that it has: {', '.join(nearest)}" if nearest else "no flag of it is spelt like this",
                f"--add {nearest[0]}" if nearest else "",
            )
        if nearest:
            raise Refused(f"{written} is not a known flag", f"it looks like {nearest[0]}", f"--add {nearest[0]}")
        return written


def merged(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """One flag for each name, the first declaration first: SGLang declares a few fields and then again by hand."""
    seen: set[str] = set()
    out = []
    for flag in flags:
        if seen.isdisjoint(flag.names):
            out.append(flag)
        seen.update(flag.names)
    return tuple(out)
