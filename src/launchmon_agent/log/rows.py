"""Which row of the data tables a message matches, without trying each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class Row(Protocol):
    @property
    def anchors(self) -> tuple[bytes, ...]: ...

    @property
    def pattern(self) -> re.Pattern[bytes]: ...


R = TypeVar("R", bound=Row)

_HEAD = 3
_LITERAL_HEAD = re.compile(rb"\^?([A-Za-z_]{%d})(?![*?+{])" % _HEAD)


class Rows(Generic[R]):
    """Rows in table order.

    Most regexes begin with plain letters: those are found by the first letters of the message. The others are tried
    only where one of their anchors is in the message.
    """

    def __init__(self, rows: Iterable[R], *, anywhere: bool) -> None:
        self._anywhere = anywhere  # regexes are searched; those for the start of the message begin with ^
        self._by_head: dict[bytes, list[tuple[int, R]]] = {}
        self._others: list[tuple[int, R]] = []
        for place, row in enumerate(rows):
            head = _LITERAL_HEAD.match(row.pattern.pattern)
            if head is not None and (not anywhere or row.pattern.pattern.startswith(b"^")):
                self._by_head.setdefault(head[1], []).append((place, row))
            else:
                self._others.append((place, row))
        anchors = {anchor for _, row in self._others for anchor in row.anchors}
        self._any_anchor = re.compile(b"|".join(re.escape(anchor) for anchor in sorted(anchors)) or b"(?!)")

    def find(self, message: bytes) -> tuple[R, re.Match[bytes]] | None:
        """The first row that matches, and its match."""
        candidates = self._by_head.get(message[:_HEAD], [])
        if self._any_anchor.search(message) is not None:
            candidates = sorted([*candidates, *self._others], key=lambda candidate: candidate[0])
        for _, row in candidates:
            if any(anchor in message for anchor in row.anchors):
                found = row.pattern.search(message) if self._anywhere else row.pattern.match(message)
                if found is not None:
                    return row, found
        return None
