"""The flags that the form for a new launch asks for, as the installed SGLang has them. Pure; see ``common.table``."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from launchmon_agent.judge.tables import TableError, sections
from launchmon_agent.sglang.flags.model import FlagList

NEEDS, OFTEN = "needs", "often"


@dataclass(frozen=True)
class CommonFlag:
    id: str
    flag: str
    label: str
    section: str  # NEEDS | OFTEN
    hint: str


def common_flags(flags: FlagList) -> tuple[CommonFlag, ...]:
    """Without those that this SGLang is known not to have."""
    return tuple(row for row in rows() if flags.has(row.flag) is not False)


@functools.cache
def rows() -> tuple[CommonFlag, ...]:
    """Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    found = []
    for id_, row in sections("common.table", ("flag", "label", "section", "hint"), package="launchmon_agent.sglang"):
        if row["section"] not in (NEEDS, OFTEN) or not row["flag"].startswith("--"):
            raise TableError(f"[{id_}]: flag or section is none")
        found.append(CommonFlag(id_, row["flag"], row["label"], row["section"], " ".join(row["hint"].split())))
    return tuple(found)
