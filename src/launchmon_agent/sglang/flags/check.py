"""Whether a value fits a flag, and which flags do not go together. Pure; the pairs are in ``contradictions.table``."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.judge.tables import TableError, lines, sections, words
from launchmon_agent.sglang.flags.model import MAYBE, VALUE, Flag, FlagList
from launchmon_agent.sglang.flags.words import given
from launchmon_agent.sglang.versions import Versions

_PACKAGE = "launchmon_agent.sglang.flags"


def check_values(name: str, flag: Flag, values: Sequence[str]) -> None:
    """Raises :class:`Refused` where SGLang would end at once with "invalid choice" or "invalid int value"."""
    if flag.is_switch:
        if values:
            raise Refused(f"{name} takes no value", "it is a switch: given, or not", f"--add {name}")
        return
    if not values:
        if flag.takes == MAYBE:
            return
        kind = f"one of {', '.join(flag.choices)}" if flag.choices else f"a value ({flag.type or 'text'})"
        raise Refused(
            f"{name} needs {kind}",
            flag.help or "it stands alone",
            f"--add {name}={flag.choices[0] if flag.choices else 'VALUE'}",
        )
    if flag.takes == VALUE and len(values) > 1:
        raise Refused(f"{name} takes one value, not {len(values)}", " ".join(values))
    for value in values:
        if not _is_of_type(value, flag.type):
            raise Refused(
                f"{name} takes {_TYPES[flag.type or '']}, and {value!r} is none", flag.help or "it is of that type"
            )
        if flag.choices and value not in flag.choices:
            near = FlagList(tuple(Flag(choice) for choice in flag.choices)).nearest(value, count=1)
            raise Refused(
                f"{value!r} is no choice for {name}",
                f"this SGLang knows {', '.join(flag.choices)}",
                f"--add {name}={near[0] if near else flag.choices[0]}",
            )


_TYPES = {"int": "a whole number", "float": "a number", "json": "a JSON value"}
_READERS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "json": json.loads}


def _is_of_type(value: str, kind: str | None) -> bool:
    reader = _READERS.get(kind or "")
    if reader is None:
        return True
    try:
        reader(value)
    except (ValueError, RecursionError):
        return False
    return True


# ------------------------------------------------------------------------------------------------------ contradictions


@dataclass(frozen=True)
class Contradiction:
    """Flags that do not go together: all of ``flags`` are given (with that value, where one is named)."""

    id: str
    flags: tuple[tuple[str, str | None], ...]
    why: str
    versions: Versions


def contradictions(argv: Sequence[str], flags: FlagList) -> tuple[str, ...]:
    """A sentence for each pair in the command that does not go together, and for flags that are repeated."""
    present: dict[str, str] = {}
    twice: dict[str, int] = {}
    for one in given(argv, flags):
        for name in one.flag.names if one.flag and one.name in one.flag.names else (one.name,):
            present[name] = " ".join(one.values)
        key = one.flag.name if one.flag else one.name
        twice[key] = twice.get(key, 0) + 1
    found = [
        f"{' and '.join(_shown(name, value) for name, value in row.flags)}: {row.why}"
        for row in rows()
        if row.versions.holds(flags.version) is not False
        and all(name in present and value in (None, present[name]) for name, value in row.flags)
    ]
    found += [f"{name} is given {count} times: the last one counts" for name, count in twice.items() if count > 1]
    return tuple(found)


def _shown(name: str, value: str | None) -> str:
    return name if value is None else f"{name} {value}"


@functools.cache
def rows() -> tuple[Contradiction, ...]:
    """Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    found = []
    for id_, fields in sections("contradictions.table", ("flags", "why", "source", "versions"), package=_PACKAGE):
        pairs = tuple((name, value if equals else None) for name, equals, value in _parts(fields["flags"]))
        if len(pairs) < 2 or not all(name.startswith("--") for name, _ in pairs):
            raise TableError(f"[{id_}]: flags names two or more")
        why = " ".join(lines(fields["why"]))
        found.append(Contradiction(id_, pairs, why, Versions.parse(fields["versions"])))
    return tuple(found)


def _parts(text: str) -> list[tuple[str, str, str]]:
    return [word.partition("=") for word in words(text)]
