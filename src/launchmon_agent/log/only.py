"""Which lines of a log a person wants to see, as it is asked for over the pipe. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.log.level import LEVELS


@dataclass(frozen=True)
class Only:
    """None: all. ``level`` means that or a more serious one; capitals count only in an ``only`` that has some."""

    rank: str | None = None
    level: str | None = None  # one of LEVELS
    only: str | None = None  # lines with this text
    only_regex: bool = False  # which is a regular expression

    @property
    def all(self) -> bool:
        return self.rank is None and self.level is None and self.only is None

    @classmethod
    def of(cls, args: Mapping[str, Any]) -> Only:
        """From the arguments of a request. Raises :class:`Refused`."""
        unknown = args.keys() - {"rank", "level", "only", "only_regex"}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise Refused(f"a log is not filtered by {names}", "client and agent are of different versions")
        level = args.get("level")
        if level is not None and level not in LEVELS:
            raise Refused(f"{level!r} is no level", f"there are {', '.join(LEVELS)}")
        return cls(args.get("rank"), level, args.get("only"), bool(args.get("only_regex")))


EVERYTHING = Only()
