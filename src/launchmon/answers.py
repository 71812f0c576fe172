"""What an agent answers, checked for its shape: on a target that has been taken over, anything may speak there."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any, TypeVar

from launchmon_agent import codec
from launchmon_agent.codec import Malformed
from launchmon_agent.errors import Refused
from launchmon_agent.events import Run

T = TypeVar("T")

MOST_UNPACKED = 64 << 20
"""Bytes of one part of a recording, of which an agent sends less than 1 MiB packed."""


def nonsense(do: str, why: object = "") -> Refused:
    return Refused(f"the agent's answer to {do!r} makes no sense", str(why), "launchmon doctor")


def shaped(cls: type[T], do: str, value: Any) -> T:
    """A dataclass from JSON values, each of the type that is declared. Raises :class:`Refused`."""
    try:
        made: T = codec.from_json(cls, value)
    except Malformed as error:
        raise nonsense(do, error) from None
    return made


def a_run(do: str, value: Any) -> Run:
    """Raises :class:`Refused`."""
    try:
        event = codec.from_body(value)
    except Malformed as error:
        raise nonsense(do, error) from None
    if not isinstance(event, Run):
        raise nonsense(do)
    return event


def an_object(do: str, value: Any, *keys: str) -> dict[str, Any]:
    """A JSON object with at least these keys. Raises :class:`Refused`."""
    if not isinstance(value, dict) or not set(keys) <= value.keys():
        raise nonsense(do)
    return value


def objects(do: str, value: Any, *keys: str) -> list[dict[str, Any]]:
    """A list of such objects. Raises :class:`Refused`."""
    if not isinstance(value, list):
        raise nonsense(do)
    return [an_object(do, one, *keys) for one in value]


def a_number(do: str, value: Any) -> float:
    """Raises :class:`Refused`."""
    try:
        if not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except (TypeError, OverflowError):
        pass
    raise nonsense(do)


def unpacked(do: str, data: Any) -> bytes:
    """From deflated bytes in base64. Raises :class:`Refused`."""
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(base64.b64decode(data), MOST_UNPACKED)
    except (ValueError, TypeError, zlib.error) as error:
        raise nonsense(do, error) from None
    if not inflate.eof:
        raise nonsense(do, "more than is ever sent at once")
    return found
