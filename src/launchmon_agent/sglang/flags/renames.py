"""Flags that went away: what to write instead. Pure; the facts are in ``renames.table``."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from launchmon_agent.errors import Refused
from launchmon_agent.judge.tables import TableError, lines, sections
from launchmon_agent.sglang.flags.model import FlagList
from launchmon_agent.sglang.versions import Versions

_PACKAGE = "launchmon_agent.sglang.flags"


@dataclass(frozen=True)
class Rename:
    old: str
    held: Versions  # in which the old name worked
    new: tuple[str, ...]  # "--flag" or "--flag=VALUE", the first that the installed one has; empty: nothing is needed
    why: str


def successor(written: str, flags: FlagList) -> str | None:
    """What replaces a flag that this SGLang no longer has; "" where nothing is needed. None: not known."""
    row = rows().get(written)
    if row is None or flags.has(written):
        return None
    return next((new for new in row.new if flags.has(new.partition("=")[0]) is not False), "" if not row.new else None)


def refuse_removed(written: str, value: str, flags: FlagList) -> None:
    """Raises :class:`Refused` with the new name for a flag that this SGLang no longer has; else does nothing."""
    row = rows().get(written)
    if row is None or flags.full_name(written) == written:
        return
    if not flags.complete and row.held.holds(flags.version) is not False:
        return
    new = successor(written, flags)
    if new is None:
        return
    of = f"SGLang {flags.version}" if flags.version else "this SGLang"
    keeps_value = bool(value) and bool(new) and "=" not in new
    raise Refused(
        f"{of} has no flag {written} (it was in {row.held.text})",
        row.why or f"it is called {new} now",
        f"--add {new}{'=' + value if keeps_value else ''}" if new else "leave it out",
    )


@functools.cache
def rows() -> dict[str, Rename]:
    """Old name → its row. Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    found = {}
    for name, fields in sections("renames.table", ("held", "source"), ("new", "why"), package=_PACKAGE):
        row = Rename("--" + name, Versions.parse(fields["held"]), lines(fields["new"]), " ".join(lines(fields["why"])))
        if row.held.until is None or not all(new.startswith("--") for new in row.new) or not (row.new or row.why):
            raise TableError(f"[{name}]: held has an end, new names flags, and one of new and why is there")
        found[row.old] = row
    return found
