"""Events without secrets: what a watch folds, records and sends, and with more rules what a report exports. Pure.

Every text of an event passes through :class:`Rules`, so that a field that somebody adds later is covered too.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Other
from launchmon_agent.sglang.secrets import redact_argv, redact_text, redact_value

E = TypeVar("E", bound=Event)

_LONGEST_FIELD = 20
"""Characters of the longest name of an event's field. All secrets with a shape of their own are longer."""


class Rules(Protocol):
    """What becomes of the texts of an event. The same text may be returned, which costs least."""

    def text(self, text: str) -> str: ...
    def words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Of a command line: as many words as before."""
        ...

    def named(self, name: str, value: str) -> str:
        """The value of a variable, flag or key."""
        ...


@functools.lru_cache(maxsize=2048)
def _without_secrets(text: str) -> str:
    """Kept, since most texts come again each second: titles, names of GPUs, evidence."""
    return redact_text(text)


class Secrets:
    """Hides secrets, and nothing else."""

    def text(self, text: str) -> str:
        return _without_secrets(text)

    def words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return redact_argv(words)

    def named(self, name: str, value: str) -> str:
        return redact_value(name, value)


SECRETS = Secrets()


def redacted(event: E, rules: Rules = SECRETS) -> E:
    """The event with all its texts as the rules have them; the very same event where nothing changes."""
    if isinstance(event, Other):
        original = redacted_object(event.original, rules)
        return event if original is event.original else dataclasses.replace(event, original=original)
    changed: E = _fields(event, rules)
    return changed


def redacted_object(body: dict[str, Any], rules: Rules = SECRETS) -> dict[str, Any]:
    """The same for a parsed JSON object, of an event or anything else; the very same object where nothing changes."""
    items = {_key(name, rules): _item(name, item, rules) for name, item in body.items()}
    return body if items == body else items


def redacted_refusal(refused: Refused) -> Refused:
    """What a person is told of a command that was not taken may quote it."""
    return Refused(*(redact_text(part) for part in (refused.what, refused.cause, refused.try_)))


def _key(name: str, rules: Rules) -> str:
    """Names of fields stay, whatever the rules would make of such a word."""
    return name if len(name) <= _LONGEST_FIELD and name.isidentifier() else rules.text(name)


def _item(name: str, value: Any, rules: Rules) -> Any:
    if isinstance(value, str):
        return rules.named(name, value)
    if name == "argv" and isinstance(value, (list, tuple)):
        return type(value)(rules.words(tuple(map(str, value))))
    return _any(value, rules)


def _fields(value: Any, rules: Rules) -> Any:
    cls: Any = type(value)
    changes = {}
    for name in _names(cls):
        old = getattr(value, name)
        if not old:
            continue
        new = rules.words(old) if name == "argv" else _any(old, rules)
        if new is not old and new != old:
            changes[name] = new
    return dataclasses.replace(value, **changes) if changes else value


@functools.cache
def _names(cls: Any) -> tuple[str, ...]:
    """Fields that can hold text. Kept for each class: events are many."""
    plain = {"int", "float", "bool"}
    specs: Iterable[dataclasses.Field[Any]] = dataclasses.fields(cls)
    return tuple(spec.name for spec in specs if str(spec.type).replace("| None", "").strip() not in plain)


def _any(value: Any, rules: Rules) -> Any:
    if isinstance(value, str):
        return rules.text(value)
    if isinstance(value, (tuple, list)):
        items = [_any(item, rules) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if isinstance(value, dict):
        return redacted_object(value, rules)
    if dataclasses.is_dataclass(value):
        return _fields(value, rules)
    return value
