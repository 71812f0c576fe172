"""Events as they travel and are recorded: one JSON object a line.

Reading is tolerant so that versions can meet: unknown fields are dropped, missing ones take their default, and an
unknown kind becomes :class:`~launchmon_agent.events.Other`, which keeps the original object. Any dataclass made of
plain values, tuples, dicts and other such dataclasses can be written and read.

Pure: it builds and parses lines and does no I/O.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, Union

from launchmon_agent.events import KINDS, Event, Other

PROTOCOL = 1
"""Raised when an old reader could misread a new stream. New kinds and new optional fields do not raise it."""

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
YEAR_1, YEAR_10000 = -62135596800, 253402300800
"""Seconds since the epoch: what ``datetime`` can tell lies between them."""

MOST = 2**64
"""No number that an event tells is larger, counters of the kernel included."""

_PLAIN = frozenset((str, int, bool, type(None)))


class Malformed(ValueError):
    """A line is not an event: no JSON object, no ``kind``, or a field of the wrong shape."""


def encode(event: Event) -> bytes:
    """One line, newline included. Fields at their default are left out."""
    if isinstance(event, Other):
        body = event.original
    else:
        body = {"kind": event.kind, **to_json(event)}
    return _ENCODER.encode(body).encode("ascii") + b"\n"


def decode(line: bytes | str) -> Event:
    """Raises :class:`Malformed`."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    return from_body(body)


def from_body(body: Any) -> Event:
    """An event from its parsed JSON object. Raises :class:`Malformed`."""
    if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
        raise Malformed("an event is a JSON object with a kind")
    cls = KINDS.get(body["kind"])
    at = body.get("at")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not YEAR_1 <= at < YEAR_10000:
        raise Malformed("an event has a time, at")
    if cls is None:
        return Other(at=float(at), original=body)
    event: Event = from_json(cls, body)
    return event


def to_json(value: Any) -> Any:
    """A dataclass as plain JSON values, without the fields that are at their default."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return round(value, 3) if value == value and abs(value) != float("inf") else None
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if not dataclasses.is_dataclass(kind):
        return value
    out = {}
    for name, default in _defaults(kind):
        item = getattr(value, name)
        if item is not default and item != default:
            out[name] = item if type(item) in _PLAIN else to_json(item)
    return out


def from_json(cls: Any, body: Any) -> Any:
    """A dataclass from plain JSON values. Raises :class:`Malformed` where a value has the wrong shape."""
    if not isinstance(body, dict):
        raise Malformed(f"{cls.__name__} is a JSON object, not {type(body).__name__}")
    known = {}
    for name, reader, required in _readers(cls):
        if name in body:
            try:
                known[name] = reader(body[name])
            except Malformed as error:
                raise Malformed(f"{cls.__name__}.{name}: {error}") from None
        elif required:
            raise Malformed(f"{cls.__name__}.{name} is missing")
    return cls(**known)


_MISSING = object()


@functools.cache
def _defaults(cls: Any) -> tuple[tuple[str, Any], ...]:
    out = []
    for spec in dataclasses.fields(cls):
        if spec.default is not dataclasses.MISSING:
            default = spec.default
        elif spec.default_factory is not dataclasses.MISSING:
            default = spec.default_factory()
        else:
            default = _MISSING
        out.append((spec.name, default))
    return tuple(out)


@functools.cache
def _readers(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(cls)
    required = {name for name, default in _defaults(cls) if default is _MISSING}
    return tuple((spec.name, _reader(hints[spec.name]), spec.name in required) for spec in dataclasses.fields(cls))


def _reader(hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [_reader(part) for part in typing.get_args(hint) if part is not type(None)]
        (one,) = inner  # the vocabulary has no unions but "or None"
        return lambda value: None if value is None else one(value)
    if origin is tuple:
        item = _reader(typing.get_args(hint)[0])
        return lambda value: tuple(item(part) for part in _expect(value, list))
    if origin is dict:
        item = _reader(typing.get_args(hint)[1])
        return lambda value: {str(key): item(part) for key, part in _expect(value, dict).items()}
    if dataclasses.is_dataclass(hint):
        return functools.partial(from_json, hint)
    if hint is float:
        return _float
    if hint is int:
        return _int
    if hint in (str, bool):
        return lambda value: _expect(value, hint)
    return lambda value: value


def _float(value: Any) -> float:
    if not -MOST <= _expect(value, (int, float)) <= MOST:  # nor is NaN
        raise Malformed("a number beyond all measure")
    return float(value)


def _int(value: Any) -> int:
    if not -MOST <= _expect(value, int) <= MOST:
        raise Malformed("a number beyond all measure")
    number: int = value
    return number


def _expect(value: Any, wanted: Any) -> Any:
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise Malformed(f"unexpected {type(value).__name__}")
    return value
