"""What is to be changed on a relaunch, while a person chooses it. Pure.

A choice is a word as remedies have it: ``--flag``, ``--flag=VALUE``, ``drop --flag``, ``NAME=VALUE``, ``unset NAME``.
There is one for each flag and each variable at most, the last one made.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchmon_agent.errors import Refused
from launchmon_agent.sglang.flags.change import Change
from launchmon_agent.sglang.flags.words import given


@dataclass(frozen=True)
class Flag:
    """A flag that the command gives."""

    name: str
    values: tuple[str, ...]

    @property
    def text(self) -> str:
        return shlex.join((self.name, *self.values))

    @property
    def word(self) -> str:
        """As a choice that would give it."""
        return f"{self.name}={' '.join(self.values)}" if self.values else self.name


@dataclass(frozen=True)
class Remedy:
    change: tuple[str, ...]
    why: str
    source: str


@dataclass(frozen=True)
class Toggle:
    """Something that is often changed; ``on`` and ``value`` as the command has it."""

    concern: str
    name: str
    change: str
    on: bool
    value: str | None
    choices: tuple[str, ...]
    why: str
    source: str

    @property
    def off(self) -> str:
        """The choice that takes it out."""
        return f"drop {self.name}" if self.name.startswith("--") else f"unset {self.name}"


@dataclass(frozen=True)
class Base:
    """The command that is changed, and what is offered to change in it."""

    attempt: int  # the one that the command is of
    flags: tuple[Flag, ...] = ()
    variables: tuple[tuple[str, str | None], ...] = ()  # changes of the environment; None: removed
    remedies: tuple[Remedy, ...] = ()
    toggles: tuple[Toggle, ...] = ()
    known: Mapping[str, Mapping[str, Any]] | None = None  # every flag of that SGLang by its name


def base_of(options: Mapping[str, Any]) -> Base:
    """Of the run that is followed, from the session's ``relaunch_options``."""
    return Base(
        attempt=options["attempt"],
        flags=tuple(Flag(one["name"], _values(one["words"])) for one in options["flags_given"]),
        variables=tuple(sorted(options["env"].items())),
        remedies=tuple(Remedy(tuple(one["change"]), one["why"], one["source"]) for one in options["remedies"]),
        toggles=tuple(_toggle(one) for one in options["toggles"]),
        known={one["name"]: one for one in options["flags"]},
    )


def base_of_attempt(
    options: Mapping[str, Any], attempt: int, argv: Sequence[str], env: Mapping[str, str | None]
) -> Base:
    """Of an earlier attempt with this command and these variables.

    The verdict's remedies are of another run: none is offered.
    """
    flags = tuple(Flag(one.name, one.values) for one in given(argv))
    values: dict[str, tuple[str, ...] | None] = {flag.name: flag.values for flag in flags}
    variables = {name: None if value is None else (value,) for name, value in env.items()}
    toggles = []
    for one in options["toggles"]:
        name = one["name"]
        if name.startswith("--") or name in env or name in options["env"]:
            found = values.get(name) if name.startswith("--") else variables.get(name)
            one = {**one, "on": found is not None, "value": " ".join(found) if found else None}
        toggles.append(_toggle(one))
    return Base(
        attempt=attempt,
        flags=flags,
        variables=tuple(sorted(env.items())),
        toggles=tuple(toggles),
        known={one["name"]: one for one in options["flags"]},
    )


def _values(words: Sequence[str]) -> tuple[str, ...]:
    _, equals, value = words[0].partition("=")
    return (value,) if equals else tuple(words[1:])


def _toggle(one: Mapping[str, Any]) -> Toggle:
    return Toggle(
        concern=one["concern"],
        name=one["name"],
        change=one["change"],
        on=one["on"],
        value=one["value"],
        choices=tuple(one["choices"]),
        why=one["why"],
        source=one["source"],
    )


def subject(word: str) -> str:
    """The flag or variable that a choice is about: ``drop --flag`` → ``--flag``."""
    verb, blank, rest = word.partition(" ")
    if blank and verb in ("drop", "unset"):
        return rest.strip()
    return word.partition("=")[0]


def removes(word: str) -> bool:
    return word.startswith(("drop ", "unset "))


def change_words(words: Sequence[str]) -> str:
    """A change as a person reads it: ``+ --flag=VALUE - --flag + NAME=VALUE``."""
    return " ".join(f"- {word.partition(' ')[2]}" if removes(word) else f"+ {word}" for word in words)


class Draft:
    """The choices made so far, in their order."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._chosen: dict[str, str] = {}
        self.put(*words)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self._chosen.values())

    @property
    def request(self) -> dict[str, Any]:
        """As arguments of the session's ``relaunch_plan``. Raises :class:`Refused` for a word that is no change."""
        change = Change.of_words(self.words)
        return {"add": change.add, "drop": change.drop, "set": change.set, "unset": change.unset}

    def put(self, *words: str) -> None:
        for word in words:
            self._chosen[subject(word)] = word

    def take(self, *words: str) -> None:
        for word in words:
            self._chosen.pop(subject(word), None)

    def of(self, name: str) -> str | None:
        """The choice about a flag or variable."""
        return self._chosen.get(name)

    def has(self, words: Iterable[str]) -> bool:
        return all(self._chosen.get(subject(word)) == word for word in words)

    def with_(self, *words: str) -> Draft:
        """Another one, with these choices too."""
        return Draft((*self.words, *words))

    def flip(self, words: Sequence[str]) -> None:
        """Make these choices, or take them back where they are made."""
        if self.has(words):
            self.take(*words)
        else:
            self.put(*words)

    def gives(self, name: str, now: bool) -> bool:
        """Whether the new command gives a flag or variable, which the old one does or does not ``now``."""
        word = self.of(name)
        return now if word is None else not removes(word)

    def switch(self, toggle: Toggle) -> None:
        """On, where it is off in the new command; else off."""
        wanted = not self.gives(toggle.name, toggle.on)
        self.take(toggle.name)
        if wanted != toggle.on:
            self.put(toggle.change if wanted else toggle.off)


def words_of(text: str) -> str:
    """What a person typed as one choice: ``--flag VALUE`` is ``--flag=VALUE``."""
    text = " ".join(text.split())
    name, blank, value = text.partition(" ")
    if name.startswith("--") and blank and "=" not in name:
        return f"{name}={value}"
    return text


def in_prompt_words(refusal: Refused) -> Refused:
    """With advice as it is typed here: the agent's is for the command line (``--add --flag``)."""
    try_ = refusal.try_.removeprefix("launchmon relaunch ")
    for option, typed in (("--add ", ""), ("--drop ", "drop "), ("--set ", "")):
        if try_.startswith(option):
            return Refused(refusal.what, refusal.cause, typed + try_.removeprefix(option))
    return refusal
