"""What a stack means (``frames.table``): what the process does or waits for, who ends it, what cures it. Pure."""

from __future__ import annotations

import configparser
import functools
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass

from launchmon_agent.events import Frame
from launchmon_agent.stacks.patterns import Chain, PatternError, parse_chain
from launchmon_agent.stacks.runtime import innermost

WAITS = ("no", "peers", "node", "lock", "child", "request", "network", "gpu", "time")
SOURCES = ("src", "run", "issue")
_VERSIONS = re.compile(r"all|\d+(\.\d+)*\+|\d+(\.\d+)*-\d+(\.\d+)*")
_FIELDS = ("frames", "waits", "what", "ends", "cure", "versions", "source")


class TableError(ValueError):
    """A section of the table cannot be read. The message names it."""


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
    """Raises :class:`TableError`."""
    data = pkgutil.get_data("launchmon_agent.stacks", "frames.table")
    if data is None:
        raise TableError("frames.table is not in the package")
    return parse(data.decode("utf-8"))


def parse(text: str) -> tuple[Row, ...]:
    """Raises :class:`TableError`."""
    table = configparser.ConfigParser(
        delimiters=(":",), comment_prefixes=("#",), interpolation=None, strict=True, empty_lines_in_values=False
    )
    try:
        table.read_string(text)
    except configparser.Error as error:
        raise TableError(str(error)) from None
    return tuple(_row(name, table[name]) for name in table.sections())


def _row(name: str, fields: configparser.SectionProxy) -> Row:
    if tuple(sorted(fields)) != tuple(sorted(_FIELDS)) or not all(fields.values()):
        raise TableError(f"[{name}] has not exactly the fields {', '.join(_FIELDS)}, or an empty one")
    sources = tuple(fields["source"].split())
    if fields["waits"] not in WAITS or not set(sources) <= set(SOURCES) or not _VERSIONS.fullmatch(fields["versions"]):
        raise TableError(f"[{name}]: waits, source or versions is none of those that the table's head names")
    try:
        chains = tuple(map(parse_chain, fields["frames"].splitlines()))
    except PatternError as error:
        raise TableError(f"[{name}]: {error}") from None
    cure = None if fields["cure"] == "-" else fields["cure"]
    said = Explanation(name, fields["waits"], fields["what"], fields["ends"], cure, fields["versions"], sources)
    return Row(said, chains)
