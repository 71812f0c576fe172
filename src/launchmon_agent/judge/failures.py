"""What an error text means (``failures.table``). Pure."""

from __future__ import annotations

import configparser
import functools
import pkgutil
import re
from collections.abc import Iterable
from dataclasses import dataclass

from launchmon_agent.events import Next
from launchmon_agent.sglang.rail import RAIL

DO = ("relaunch", "run", "wait", "kill", "dump")
SOURCES = ("issue", "src", "run")
_FIELDS = ("match", "phases", "says", "do", "change", "why", "source")


class TableError(ValueError):
    """A section of the table cannot be read. The message names it."""


@dataclass(frozen=True)
class Failure:
    id: str
    patterns: tuple[re.Pattern[str], ...]
    phases: frozenset[str]
    says: str
    next: Next | None
    source: str

    def fits(self, text: str, phase: str) -> bool:
        return phase in self.phases and any(pattern.search(text) for pattern in self.patterns)


def failure_of(texts: Iterable[str], phase: str) -> Failure | None:
    """``texts``: what was said, the most telling first. ``phase``: of the run. None where no row knows it."""
    for text in texts:
        for row in rows():
            if row.fits(text, phase):
                return row
    return None


@functools.cache
def rows() -> tuple[Failure, ...]:
    """Raises :class:`TableError`."""
    data = pkgutil.get_data("launchmon_agent.judge", "failures.table")
    if data is None:
        raise TableError("failures.table is not in the package")
    return parse(data.decode("utf-8"))


def parse(text: str) -> tuple[Failure, ...]:
    """Raises :class:`TableError`."""
    table = configparser.ConfigParser(
        delimiters=(":",), comment_prefixes=("#",), interpolation=None, strict=True, empty_lines_in_values=False
    )
    try:
        table.read_string(text)
    except configparser.Error as error:
        raise TableError(str(error)) from None
    return tuple(_row(name, table[name]) for name in table.sections())


def _row(name: str, fields: configparser.SectionProxy) -> Failure:
    if sorted(fields) != sorted(_FIELDS) or not all(fields.values()):
        raise TableError(f"[{name}] has not exactly the fields {', '.join(_FIELDS)}, or an empty one")
    phases = frozenset(RAIL) if fields["phases"] == "all" else frozenset(fields["phases"].split())
    if not phases <= set(RAIL) or fields["source"] not in SOURCES or fields["do"] not in (*DO, "-"):
        raise TableError(f"[{name}]: phases, do or source is none of those that the table's head names")
    try:
        patterns = tuple(re.compile(line) for line in fields["match"].splitlines())
    except re.error as error:
        raise TableError(f"[{name}]: {error}") from None
    step = None
    if fields["do"] != "-":
        change = () if fields["change"] == "-" else _change(fields["do"], fields["change"])
        step = Next(fields["do"], change, fields["why"], fields["source"])
    return Failure(name, patterns, phases, fields["says"], step, fields["source"])


def _change(do: str, text: str) -> tuple[str, ...]:
    """A command is one thing; flags and variables are one each."""
    return (text,) if do == "run" else tuple(text.split())
