"""Reads MessagePack, the form in which SGLang publishes its load. Pure.

The whole of the specification (github.com/msgpack/msgpack, spec.md) but timestamps and other extensions, which come as
their bytes.
"""

from __future__ import annotations

import struct
from typing import Any

_DEEPEST = 32
"""Nesting beyond this is no load but damage."""

_SCALARS = {
    0xC0: None,
    0xC2: False,
    0xC3: True,
}
_NUMBERS = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
_LENGTHS = {
    # first byte → (what follows, bytes of its length)
    0xC4: ("bytes", 1),
    0xC5: ("bytes", 2),
    0xC6: ("bytes", 4),
    0xC7: ("ext", 1),
    0xC8: ("ext", 2),
    0xC9: ("ext", 4),
    0xD9: ("str", 1),
    0xDA: ("str", 2),
    0xDB: ("str", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
_FIXED_EXT = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def unpack(data: bytes) -> Any:
    """The one value that ``data`` is. Raises ValueError where it is cut, damaged, or longer than that value."""
    reader = _Reader(data)
    value = reader.value(0)
    if reader.place != len(data):
        raise ValueError(f"{len(data) - reader.place} bytes after the value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
        first = self._take(1)[0]
        if first <= 0x7F:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first <= 0x8F:
            return self._map(first & 0x0F, depth)
        if first <= 0x9F:
            return self._array(first & 0x0F, depth)
        if first <= 0xBF:
            return self._text(first & 0x1F)
        if first in _SCALARS:
            return _SCALARS[first]
        if first in _NUMBERS:
            form = _NUMBERS[first]
            return form.unpack(self._take(form.size))[0]
        if first in _FIXED_EXT:
            return self._take(1 + _FIXED_EXT[first])[1:]
        if first not in _LENGTHS:
            raise ValueError(f"no value begins with 0x{first:02x}")
        what, size = _LENGTHS[first]
        return self._long(what, int.from_bytes(self._take(size), "big"), depth)

    def _long(self, what: str, length: int, depth: int) -> Any:
        if what == "map":
            return self._map(length, depth)
        if what == "array":
            return self._array(length, depth)
        if what == "str":
            return self._text(length)
        return self._take(length + 1)[1:] if what == "ext" else self._take(length)

    def _map(self, length: int, depth: int) -> dict[Any, Any]:
        found = {}
        for _ in range(length):
            key = self.value(depth + 1)
            if not isinstance(key, (str, int, bytes)):
                raise ValueError("a key is a text or a number")
            found[key] = self.value(depth + 1)
        return found

    def _array(self, length: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(length)]

    def _text(self, length: int) -> str:
        return self._take(length).decode("utf-8")  # UnicodeDecodeError is a ValueError

    def _take(self, size: int) -> bytes:
        part = self._data[self.place : self.place + size]
        if len(part) != size:
            raise ValueError("cut short")
        self.place += size
        return part
