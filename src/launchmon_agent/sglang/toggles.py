"""What is often changed on a relaunch, as the installed SGLang spells it. Pure; the rows are in ``toggles.table``."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launchmon_agent.judge.tables import TableError, lines, sections
from launchmon_agent.sglang.flags.model import SWITCH, VALUE, Flag, FlagList
from launchmon_agent.sglang.flags.words import is_given
from launchmon_agent.sglang.versions import Versions

CONCERNS = (
    *("graphs", "all-reduce", "backends", "memory", "scheduling"),
    *("jit", "speculative", "logging", "timeouts", "nccl"),
)


@dataclass(frozen=True)
class ToggleRow:
    id: str
    concern: str
    changes: tuple[str, ...]  # spellings: "--flag", "--flag=VALUE", or one "NAME=VALUE"
    why: str
    source: str
    versions: Versions

    @property
    def is_variable(self) -> bool:
        return not self.changes[0].startswith("--")


@dataclass(frozen=True)
class Toggle:
    """A row as it applies to one run."""

    id: str
    concern: str
    name: str  # the flag or variable
    change: str  # what turning it on would be, with the value that is offered first
    on: bool  # given now
    value: str | None  # given now; None: not given, or a switch
    choices: tuple[str, ...]  # of the installed SGLang; empty: free, or not known
    why: str
    source: str


def toggles(argv: Sequence[str], environ: Mapping[str, str], flags: FlagList) -> tuple[Toggle, ...]:
    """Those that the installed SGLang has, in the order of the table. ``environ``: the server's, as far as known."""
    found = []
    for row in rows():
        change = _spelling(row, flags)
        if change is None:
            continue
        name = change.partition("=")[0]
        given, flag = is_given(argv, name, flags), flags.find(name)
        on, value = given is not None, None if given is None else " ".join(given.values) or None
        if row.is_variable:
            on, value = name in environ, environ.get(name)
        choices = () if flag is None else flag.choices
        found.append(Toggle(row.id, row.concern, name, change, on, value, choices, row.why, row.source))
    return tuple(found)


def flags_of_tables(version: str | None) -> FlagList:
    """The flags that the table knows of, for a server whose own list cannot be read. Not complete."""
    found = {}
    for row in rows():
        if not row.is_variable and row.versions.holds(version) is not False:
            for change in row.changes:
                name, equals, _ = change.partition("=")
                found[name] = Flag(name, takes=VALUE if equals else SWITCH)
    return FlagList(tuple(found.values()), version=version, source="table", complete=False)


def _spelling(row: ToggleRow, flags: FlagList) -> str | None:
    """The first spelling that this SGLang has; None where it has none."""
    if row.versions.holds(flags.version) is False:
        return None
    if row.is_variable:
        return row.changes[0]
    return next((change for change in row.changes if flags.has(change.partition("=")[0]) is not False), None)


@functools.cache
def rows() -> tuple[ToggleRow, ...]:
    """Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    found = []
    fields = ("concern", "change", "why", "source", "versions")
    for id_, row in sections("toggles.table", fields, package="launchmon_agent.sglang"):
        changes = lines(row["change"])
        spelled = [change.startswith("--") for change in changes]
        if row["concern"] not in CONCERNS or not (all(spelled) or (len(changes) == 1 and "=" in changes[0])):
            raise TableError(f"[{id_}]: concern or change is none of those that the table's head names")
        why = " ".join(lines(row["why"]))
        found.append(ToggleRow(id_, row["concern"], changes, why, row["source"], Versions.parse(row["versions"])))
    return tuple(found)
