"""From a log's bytes to text that is safe to put on a terminal. What would act on it is shown instead of passed on.

- invalid UTF-8 becomes U+FFFD, one for each byte;
- escape and other control characters become control pictures (``␛ ␀ ␈ ␡``);
- C1 controls, direction overrides and isolates, zero-width, unassigned and other invisible characters, and those
  whose width terminals do not agree on, become ``⟨U+202E⟩``;
- tabs are expanded, other blanks become spaces, and colour (SGR) sequences are dropped.
"""

from __future__ import annotations

import re
import unicodedata

LIMIT = 4096
"""Characters of a line that are shown."""

TAB = 8

SGR = re.compile(rb"\x1b\[[0-9;:]*m")

_PRESENTATION = frozenset({0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400)})
"""Text or emoji form, and skin colour, of the character before: dropped, since they change its looks and its width."""

_UNSURE = frozenset(range(0x3248, 0x3250))
"""Two cells to the C library, one to others (East Asian width "ambiguous"), as those of category Mc are one cell to
some and none to others: a row that is wider than was counted pushes what stands beside it off the screen."""

_INVISIBLE = {
    # Default-ignorable or blank although category L, M or S (Unicode 15, DerivedCoreProperties)
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0,
    *range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0),
}  # fmt: skip
_STACKED = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4,}")
"""More combining marks on one character than any language writes: they would overprint the rows around it."""


class _Table(dict[int, str]):
    """For :meth:`str.translate`: works out each character once."""

    def __missing__(self, code: int) -> str:
        if len(self) > 4096:  # random bytes must not fill the memory
            self.clear()
        self[code] = text = _safe(code)
        return text


def _safe(code: int) -> str:
    character = chr(code)
    if character == "\t":
        return character  # expanded once the width of what precedes it is known
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:
        return "\ufffd"
    if code in _PRESENTATION:
        return ""
    category = unicodedata.category(character)
    if category == "Zs":
        return " "
    if code in _INVISIBLE or code in _UNSURE or category == "Mc" or not character.isprintable():
        return f"⟨U+{code:04X}⟩"
    return character


_TABLE = _Table()


def printable(text: str) -> str:
    """Text, possibly with surrogate escapes, as it may be shown."""
    if text.isascii() and text.isprintable():
        return text
    text = text.translate(_TABLE)
    if not text.isascii():
        text = _STACKED.sub(lambda marks: f"⟨{len(marks[0])} combining marks⟩", text)
    return text.expandtabs(TAB)


def text_of(data: bytes, missing: int = 0, limit: int = LIMIT) -> tuple[str, bool]:
    """The text of a line, and whether it was cut.

    ``missing`` bytes of the line follow ``data`` but were not read. A line of more than ``limit`` characters is cut
    and says by how many bytes.
    """
    if b"\x1b" in data:
        data = SGR.sub(b"", data)
    return raw_text_of(data, missing, limit)


def raw_text_of(data: bytes, missing: int = 0, limit: int = LIMIT) -> tuple[str, bool]:
    """As :func:`text_of`, with the colour sequences shown like all others."""
    # Four bytes a character at most, and one character more to see whether there is more.
    characters = data[: 4 * (limit + 1)].decode("utf-8", "surrogateescape")
    kept = min(len(characters), limit)
    text = printable(characters[:kept])
    while len(text) > limit:  # what is made visible takes more room
        kept = min(kept - 1, kept * limit // len(text))
        text = printable(characters[:kept])
    left = len(data) - len(characters[:kept].encode("utf-8", "surrogateescape")) + missing
    if left <= 0:
        return text, False
    return f"{text} … +{left} bytes", True
