"""What a stack means (``frames.table``): what the process does or waits for, who ends it, what cures it. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launchmon_agent.events import Frame
from launchmon_agent.judge.tables import TableError, lines, sections
from launchmon_agent.stacks.patterns import Chain, PatternError, parse_chain
from launchmon_agent.stacks.runtime import innermost

WAITS = ("no", "peers", "node", "lock", "child", "request", "network", "gpu", "time")
SOURCES = ("src", "run", "issue")
_VERSIONS = re.compile(r"all|\d+(\.\d+)*\+|\d+(\.\d+)*-\d+(\.\d+)*")
FIELDS = ("frames", "waits", "what", "ends", "cure", "versions", "source")


@dataclass(frozen=True)
class Explanation:
    id: str
    waits: str  # one of WAITS
    what: str  # a clause whose subject is the process
    ends: str
    cure: str | None
    versions: str
    sources: tuple[str, ...]

    @property
    def waiting(self) -> bool:
        """It waits for somebody or something else; False: the process itself is at work."""
        return self.waits != "no"


@dataclass(frozen=True)
class Row:
    explanation: Explanation
    chains: tuple[Chain, ...]


def explain(frames: Sequence[Frame]) -> Explanation | None:
    """The meaning of one thread's stack (innermost first), native frames included; None where no row knows it."""
    stack = list(frames)
    first = innermost(stack)
    for row in rows():
        if any(chain.fits(stack, first) for chain in row.chains):
            return row.explanation
    return None


def wait_inside(frames: Sequence[Frame]) -> Explanation | None:
    """What the innermost frame alone, or native ones inside it, say of a wait. For a process that is at work by
    :func:`explain`: a loader that sleeps on a lock."""
    stack = list(frames)
    first = innermost(stack)
    native = stack[:first]
    for row in rows():
        if row.explanation.waiting and any(
            chain.fits(stack if chain.innermost else native, first) for chain in row.chains
        ):
            return row.explanation
    return None


@functools.cache
def rows() -> tuple[Row, ...]:
    """Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    table = sections("frames.table", FIELDS, package="launchmon_agent.stacks")
    return tuple(row_of(id_, fields) for id_, fields in table)


def row_of(id_: str, fields: Mapping[str, str]) -> Row:
    """One section of the table. Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    sources = tuple(fields["source"].split())
    if fields["waits"] not in WAITS or not set(sources) <= set(SOURCES) or not _VERSIONS.fullmatch(fields["versions"]):
        raise TableError(f"[{id_}]: waits, source or versions is none of those that the table's head names")
    try:
        chains = tuple(map(parse_chain, lines(fields["frames"])))
    except PatternError as error:
        raise TableError(f"[{id_}]: {error}") from None
    cure = None if fields["cure"] == "-" else fields["cure"]
    said = Explanation(id_, fields["waits"], fields["what"], fields["ends"], cure, fields["versions"], sources)
    return Row(said, chains)
