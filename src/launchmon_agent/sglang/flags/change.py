"""A change of a server's command and environment, and what comes of it. Pure.

A change is written as remedies write it (``judge/remedies.table``): ``--flag``, ``--flag=VALUE``, ``drop --flag``,
``NAME=VALUE``, ``unset NAME``. The words of a value that takes several are separated by blanks.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launchmon_agent.errors import Refused
from launchmon_agent.sglang.command import parse
from launchmon_agent.sglang.flags.check import check_values, contradictions
from launchmon_agent.sglang.flags.model import VALUES, FlagList
from launchmon_agent.sglang.flags.renames import refuse_removed
from launchmon_agent.sglang.flags.words import NOTHING_KNOWN, Given, given, written
from launchmon_agent.sglang.secrets import HIDDEN, redact_argv, redact_env

Environment = Mapping[str, "str | None"]
"""Changes of an environment: name → value, None for a variable that is removed."""


@dataclass(frozen=True)
class Change:
    add: tuple[str, ...] = ()  # "--flag" or "--flag=VALUE"
    drop: tuple[str, ...] = ()  # "--flag"
    set: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.drop or self.set or self.unset)

    @property
    def touches_flags(self) -> bool:
        return bool(self.add or self.drop)

    @property
    def environment(self) -> dict[str, str | None]:
        return {**self.set, **dict.fromkeys(self.unset)}

    @classmethod
    def of_words(cls, words: Iterable[str]) -> Change:
        """From the words of a remedy. Raises :class:`Refused` for one that is none of them."""
        add, drop, set_, unset = [], [], {}, []
        for word in words:
            verb, _, rest = word.partition(" ")
            name, equals, value = word.partition("=")
            if word.startswith("--"):
                add.append(word)
            elif verb == "drop" and rest:
                drop.append(rest)
            elif verb == "unset" and rest:
                unset.append(rest)
            elif name and equals:
                set_[name] = value
            else:
                raise Refused(f"{word!r} is no change", "it is --flag, --flag=VALUE, drop --flag, K=V or unset K")
        return cls(tuple(add), tuple(drop), set_, tuple(unset))

    @property
    def words(self) -> tuple[str, ...]:
        """As :meth:`of_words` reads it, secrets not hidden."""
        return (
            *self.add,
            *(f"drop {name}" for name in self.drop),
            *(f"{name}={value}" for name, value in self.set.items()),
            *(f"unset {name}" for name in self.unset),
        )


@dataclass(frozen=True)
class Applied:
    """``warnings`` are sentences about the new command: what does not go together, what is deprecated."""

    argv: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def apply(argv: Sequence[str], change: Change, flags: FlagList = NOTHING_KNOWN) -> Applied:
    """The new command. Raises :class:`Refused` where SGLang would not take it, with what it would take."""
    words = tuple(argv)
    if change.touches_flags and not parse(words).is_sglang:
        raise Refused(
            "The flags of this run cannot be changed",
            f"it was started through {words[0] if words else 'nothing'}, and SGLang's own flags are inside of that",
            "change the script, and start it with: launchmon launch -- …",
        )
    warnings: list[str] = []
    for written_name in change.drop:
        words = _without(words, _to_drop(words, written_name, flags), flags)
    for item in change.add:
        words = _with(words, item, flags, warnings)
    if change.touches_flags:
        warnings += contradictions(words, flags)
        warnings += _unknown(words, flags)
    return Applied(words, tuple(dict.fromkeys(warnings)))


def _to_drop(argv: Sequence[str], name: str, flags: FlagList) -> str:
    """Its full name; as it is written where the command gives a flag that SGLang does not take."""
    refused = flags.full_name(name) is None and any(one.written == name for one in given(argv, flags))
    return name if refused else flags.resolve(name)


def _without(argv: tuple[str, ...], name: str, flags: FlagList) -> tuple[str, ...]:
    found = _same(argv, name, flags)
    if not found:
        raise Refused(
            f"{name} is not in the command",
            "it may be set by --config FILE, or be SGLang's default",
            "launchmon relaunch --dry-run    # shows the command as it is",
        )
    return _cut(argv, found)


def _with(argv: tuple[str, ...], item: str, flags: FlagList, warnings: list[str]) -> tuple[str, ...]:
    """With a flag set as ``item`` says: in the place where it is already, else at the end."""
    name, equals, value = item.partition("=")
    refuse_removed(name, value, flags)
    full = flags.resolve(name)
    flag = flags.get(full)
    values = () if not equals else tuple(value.split()) if flag is not None and flag.takes == VALUES else (value,)
    if flag is not None:
        check_values(full, flag, values)
        if flag.deprecated:
            warnings.append(f"{full} is deprecated" + (f": SGLang says to use {flag.instead}" if flag.instead else ""))
    found = _same(argv, full, flags)
    new = written(full, values, equals=bool(equals) and (flag is None or bool(found and found[-1].equals)))
    if not found:
        return (*argv, *new)
    place = found[0].begin
    kept = _cut(argv, found)
    return (*kept[:place], *new, *kept[place:])


def _same(argv: Sequence[str], name: str, flags: FlagList) -> list[Given]:
    """Where a flag is given, under any of its names, negated ones included."""
    flag = flags.get(name)
    names = {name} if flag is None else set(flag.spellings)
    return [one for one in given(argv, flags) if one.name in names]


def _cut(argv: Sequence[str], found: Sequence[Given]) -> tuple[str, ...]:
    gone = {place for one in found for place in range(one.begin, one.end)}
    return tuple(word for place, word in enumerate(argv) if place not in gone)


def _unknown(argv: Sequence[str], flags: FlagList) -> list[str]:
    """Sentences about flags that were in the command already and that this SGLang does not take."""
    if not flags.complete:
        return []
    return [
        f"{one.written} is no flag of SGLang {flags.version or 'here'}: it will end with status 2"
        for one in given(argv, flags)
        if one.flag is None and one.written not in ("--help", "--model-type")  # the latter is of "sglang serve"
    ]


# ------------------------------------------------------------------------------------------------------------ display


def difference(
    old: Sequence[str],
    new: Sequence[str],
    old_env: Environment,
    new_env: Environment,
    flags: FlagList = NOTHING_KNOWN,
) -> tuple[str, ...]:
    """What differs between two launches, for a person, secrets hidden. Empty: nothing.

    ``+ --flag VALUE`` came, ``- --flag`` went, ``~ --flag A → B`` changed; the same with variables. The environments
    are changes against one that is not known here.
    """
    before, after = (_flag_values(argv, flags) for argv in (old, new))
    out = [*_compared(before, after)]
    heads = [tuple(redact_argv(argv))[: _head(argv)] for argv in (old, new)]
    if heads[0] != heads[1]:
        out.insert(0, f"~ {shlex.join(heads[0])} → {shlex.join(heads[1])}")
    shown = [redact_env(env) for env in (old_env, new_env)]
    for name in sorted(set(shown[0]) | set(shown[1])):
        if name not in shown[1]:
            out.append(f"- {name}={shown[0][name]}" if shown[0][name] is not None else f"+ {name} as in the shell")
        elif shown[1][name] is None:
            if name not in shown[0] or shown[0][name] is not None:
                out.append(f"- {name}")
        elif old_env.get(name) is None:
            out.append(f"+ {name}={shown[1][name]}")
        elif old_env[name] != new_env[name]:
            out.append(f"~ {name}={shown[0][name]} → {shown[1][name]}")
    return tuple(out)


def command_line(argv: Sequence[str], env: Environment, cwd: str | None = None) -> str:
    """One line for a shell that starts the same, secrets hidden."""
    shown = redact_env(env)
    removed = [word for name, value in sorted(shown.items()) if value is None for word in ("-u", name)]
    assigned = [f"{name}={shlex.quote(value)}" for name, value in sorted(shown.items()) if value is not None]
    words = [*(["env", *map(shlex.quote, removed)] if removed else []), *assigned, shlex.join(redact_argv(argv))]
    line = " ".join(words)
    return line if cwd is None else f"cd {shlex.quote(cwd)} && {line}"


def _head(argv: Sequence[str]) -> int:
    """How many words come before the first flag of the server."""
    found = given(argv)
    return found[0].begin if found else len(argv)


def _flag_values(argv: Sequence[str], flags: FlagList) -> dict[str, _Value]:
    """Flag → what it is given, the last one of a flag that is repeated. All names of a flag are one."""
    shown = redact_argv(argv)
    values = {}
    for one in given(argv, flags):
        words = shown[one.begin : one.end]
        text = words[0].partition("=")[2] if one.equals else shlex.join(words[1:]).replace(f"'{HIDDEN}'", HIDDEN)
        key = one.flag.name if one.flag and one.name in one.flag.names else one.name
        values[key] = _Value(one.name, one.values, text)
    return values


@dataclass(frozen=True)
class _Value:
    name: str  # as the command gives it, in full
    values: tuple[str, ...]
    text: str  # the same, secrets hidden


def _compared(before: Mapping[str, _Value], after: Mapping[str, _Value]) -> Iterable[str]:
    for key, old in before.items():
        new = after.get(key)
        if new is None:
            yield f"- {old.name} {old.text}".rstrip()
        elif old.values != new.values:
            yield f"~ {new.name} {old.text} → {new.text}"
    for key, new in after.items():
        if key not in before:
            yield f"+ {new.name} {new.text}".rstrip()
