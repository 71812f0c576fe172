"""A person's own keys: by the id of an action, checked against all other keys that work at the same time. Pure."""

from __future__ import annotations

import contextlib
import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from launchmon.actions import ACTIONS, TOGETHER, Action, key_name

Keymap = Mapping[str, tuple[str, ...]]
"""Ids of actions → their keys, by Textual's names."""

_NAMED = (
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", "backspace"),
    *("enter", "escape", "tab", "space", *(f"f{number}" for number in range(1, 25))),
)
_MODIFIED = re.compile(r"(?:(?:ctrl|shift|alt)\+)*(.+)")
_FAMILIAR = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete", "ins": "insert"}
_WRITTEN = {"solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus"}
_WRITTEN |= {"plus_sign": "plus", "low_line": "underscore"}
"""Where Textual's name of a character is not Unicode's: ``textual.keys.KEY_NAME_REPLACEMENTS``, by a test."""


@dataclass(frozen=True)
class Settled:
    """The keys that can be used, and a line for each entry that cannot, whose action keeps its own keys."""

    keys: dict[str, tuple[str, ...]]
    problems: tuple[str, ...]


def settle(wanted: Mapping[str, tuple[object, str]]) -> Settled:
    """``wanted``: ids → keys (a text or a list of texts), and where that was said."""
    keys: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for id_, (value, origin) in wanted.items():
        try:
            keys[id_] = _keys_of(id_, value)
        except ValueError as error:
            problems.append(f"{origin}: keys: {error}")
    while True:
        clash = _clash(keys)
        if clash is None:
            return Settled(keys, tuple(problems))
        name, entry, other = clash
        said = f"{entry}: {key_name(name)} is the key of {other} on the same screen; give {other} another one too"
        problems.append(f"{wanted[entry][1]}: keys: {said}")
        del keys[entry]


def rebound(actions: Sequence[Action], keymap: Keymap) -> list[Action]:
    """The actions with the keys that they have for this person."""
    return [replace(action, keys=keymap[action.id]) if action.id in keymap else action for action in actions]


def key(text: str) -> str:
    """Textual's name of a key: ``/`` → ``slash``, ``^K`` and ``Ctrl+K`` → ``ctrl+k``. Raises :class:`ValueError`."""
    text = text.strip()
    if len(text) == 2 and text[0] == "^" and text[1].isalpha():
        text = f"ctrl+{text[1].lower()}"
    if len(text) == 1:
        return _character(text)
    lowered = text.lower()
    modified = _MODIFIED.fullmatch(lowered)
    base = modified[1] if modified is not None else lowered
    base = _FAMILIAR.get(base, base)
    if base in _NAMED or (len(base) == 1 and base != lowered) or _is_character_name(base):
        head = lowered[: len(lowered) - len(modified[1])] if modified is not None else ""
        return head + (_character(base) if len(base) == 1 else base)
    raise ValueError(f"{text!r} is not a key; keys are e.g. k, K, /, ctrl+k, f5, pageup, space")


def _character(character: str) -> str:
    if character.isalnum():
        return character
    try:
        name = unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")
    except ValueError:
        raise ValueError(f"{character!r} is not a key that can be typed") from None
    return _WRITTEN.get(name, name)


def _is_character_name(name: str) -> bool:
    """``slash``, ``question_mark``: what Textual calls a character that is no letter or digit."""
    if name in _WRITTEN.values():
        return True
    for spelled in (name.replace("_", " "), name.replace("_", "-", 1).replace("_", " ")):  # "LESS-THAN SIGN"
        with contextlib.suppress(KeyError):
            return not unicodedata.lookup(spelled).isalnum()
    return False


def _keys_of(id_: str, value: object) -> tuple[str, ...]:
    ids = [action.id for action in ACTIONS]
    if id_ not in ids:
        close = difflib.get_close_matches(id_, ids, n=1)
        raise ValueError(f"there is no action {id_!r}" + (f"; do you mean {close[0]}?" if close else ""))
    if _action(id_).takes_key:
        raise ValueError(f"{id_}: it has the digits, and no other keys")
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"{id_}: keys are a text or a list of texts, one at least")
    try:
        return tuple(dict.fromkeys(key(text) for text in texts))
    except ValueError as error:
        raise ValueError(f"{id_}: {error}") from None


def _clash(keys: Keymap) -> tuple[str, str, str] | None:
    """A key that means two things at once, the entry of the person that makes it so, and the other action."""
    actions = rebound(ACTIONS, keys)
    for scopes in TOGETHER:
        there = [action for action in actions if action.scope in ("app", *scopes)]
        for one, other in combinations(there, 2):
            shared = [name for name in one.keys if name in other.keys]
            if shared:
                entry, against = (other, one) if other.id in keys else (one, other)
                return shared[0], entry.id, against.id
    return None


def _action(id_: str) -> Action:
    return next(action for action in ACTIONS if action.id == id_)
