"""What an error text means (``failures.table``). Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from launchmon_agent.events import Next
from launchmon_agent.judge.tables import TableError, lines, sections
from launchmon_agent.sglang.rail import RAIL

DO = ("relaunch", "run", "wait", "kill", "dump")
SOURCES = ("issue", "src", "run")
FIELDS = ("match", "phases", "says", "do", "change", "why", "source")


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
        for known in rows():
            if known.fits(text, phase):
                return known
    return None


@functools.cache
def rows() -> tuple[Failure, ...]:
    """Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    return tuple(row_of(id_, fields) for id_, fields in sections("failures.table", FIELDS))


def row_of(id_: str, fields: Mapping[str, str]) -> Failure:
    """One section of the table. Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    phases = frozenset(RAIL) if fields["phases"] == "all" else frozenset(fields["phases"].split())
    if not phases <= set(RAIL) or fields["source"] not in SOURCES or fields["do"] not in (*DO, "-"):
        raise TableError(f"[{id_}]: phases, do or source is none of those that the table's head names")
    try:
        patterns = tuple(re.compile(line) for line in lines(fields["match"]))
    except re.error as error:
        raise TableError(f"[{id_}]: {error}") from None
    step = None
    if fields["do"] != "-":
        change = () if fields["change"] == "-" else _change(fields["do"], fields["change"])
        step = Next(fields["do"], change, fields["why"], fields["source"])
    return Failure(id_, patterns, phases, fields["says"], step, fields["source"])


def _change(do: str, text: str) -> tuple[str, ...]:
    """A command is one thing; flags and variables are one each."""
    return (text,) if do == "run" else tuple(text.split())
