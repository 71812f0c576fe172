"""Which flags the installed SGLang takes, as far as a verdict suggests or explains them. Pure.

The whole list of flags would be 20 KB of each recording. What a verdict can ever need of it is little: which of the
suggestions of the tables do not exist there, and what was meant by flags of the command that do not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from launchmon_agent.events import Installed, Next
from launchmon_agent.judge import failures, words
from launchmon_agent.judge.remedies import Supports, flag_of
from launchmon_agent.judge.remedies import rows as remedy_rows
from launchmon_agent.sglang.flags.model import FlagList
from launchmon_agent.sglang.flags.renames import successor
from launchmon_agent.sglang.flags.words import given, is_given
from launchmon_agent.sglang.secrets import is_secret_name

LIKE = 0.8
"""Likeness from which a flag is offered for one that does not exist: with its value it would be set to it."""

MOST_MEANT = 3
"""Flags that are named of those that a shortened one could mean."""

_ALWAYS = ("--help", "--model-type")
"""Taken though no list has them: the latter by ``sglang serve``."""

_REFUSED = re.compile(r"(?:unrecognized arguments?|ambiguous option): (?P<rest>.*)")
_FLAG = re.compile(r"--[A-Za-z][\w-]*")


@functools.cache
def suggested() -> tuple[str, ...]:
    """Every flag that a table of the judge may suggest to set."""
    changes = [change for row in remedy_rows() if row.do == "relaunch" for change in row.change]
    changes += [change for row in failures.rows() if row.next is not None for change in row.next.change]
    return tuple(sorted({flag_of(change) for change in changes if change.startswith("--")}))


def installed(argv: Sequence[str], flags: FlagList, at: float) -> Installed:
    """A command and the suggestions, held against the complete flag list of its SGLang."""
    unknown = {one.written: _meant(one.written, flags) for one in given(argv, flags) if flags.has(one.written) is False}
    return Installed(
        at,
        version=flags.version,
        lacks=tuple(flag for flag in suggested() if flags.has(flag) is False),
        unknown={name: meant for name, meant in unknown.items() if name not in _ALWAYS},
    )


def _meant(written: str, flags: FlagList) -> tuple[str, ...]:
    new = successor(written, flags)
    if new is not None:
        return (flag_of(new),) if new else ()
    return flags.meant_by(written)[:MOST_MEANT] or flags.nearest(written, cutoff=LIKE, count=1)


def supports(known: Installed | None) -> Supports:
    """Whether a suggested flag exists there; None: it is not known to lack it."""
    lacks = frozenset() if known is None else frozenset(known.lacks)
    return lambda flag: False if flag in lacks else None


def feasible(steps: Iterable[Next], known: Installed | None) -> tuple[Next, ...]:
    """Steps without the flags that this SGLang lacks; one that asked for nothing else is left out."""
    takes = supports(known)
    kept = []
    for step in steps:
        change = tuple(part for part in step.change if not part.startswith("--") or takes(flag_of(part)) is not False)
        if change == step.change:
            kept.append(step)
        elif change:
            kept.append(Next(step.do, change, step.why, step.source))
    return tuple(kept)


def refused_flags(text: str, known: Installed | None) -> tuple[str, ...]:
    """Flags of the command that argparse names in an error and that the installed SGLang does not take."""
    match = _REFUSED.search(text)
    if match is None or known is None:
        return ()
    return tuple(name for name in dict.fromkeys(_FLAG.findall(match["rest"])) if name in known.unknown)


def nearest_words(names: Sequence[str], known: Installed) -> str:
    """``SGLang 0.5.23 has no --mem-fraction-statc; nearest is --mem-fraction-static.``"""
    of = f"SGLang {known.version}" if known.version else "The installed SGLang"
    said = []
    for name in names:
        meant = known.unknown[name]
        nearest = f"; nearest {'is' if len(meant) == 1 else 'are'} {words.listed(meant)}" if meant else ""
        said.append(f"{of} has no {name}{nearest}.")
    return " ".join(said)


def correction(names: Sequence[str], known: Installed, argv: Sequence[str]) -> Next | None:
    """Takes the refused flags out, and sets those that they look like most to the same values."""
    change = []
    for name in names:
        one = is_given(argv, name)
        if one is None:
            return None
        change.append(f"drop {name}")
        if known.unknown[name]:
            meant = known.unknown[name][0]
            if is_secret_name(meant) or is_secret_name(name):
                return None
            change.append(f"{meant}={' '.join(one.values)}" if one.values else meant)
    return Next("relaunch", tuple(change), "the flag that it looks like, with the same value", "run")
