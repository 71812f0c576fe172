"""Which row of the data tables a message matches, without trying each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from launchmon_agent.sglang.table import BarRow, ErrorRow, MarkRow

Row = MarkRow | ErrorRow | BarRow

_HEAD = 3
_LITERAL = re.compile(rb"[A-Za-z_]{3}(?![*?+{])")
_CHOICE = re.compile(rb"\(\?:([^()]*)\)(\??)")


class Rows:
    """Rows in table order. A mark's regex is matched at the start of the message, any other is searched.

    Most regexes can only begin with certain letters: those are found by the first letters of the message. The others
    are tried where one of their anchors is in it. All their anchors are searched at once, which is fast as long as
    they begin with characters that are rare in a log.
    """

    def __init__(self, *tables: Iterable[Row]) -> None:
        self._by_head: dict[bytes, list[tuple[int, Row]]] = {}
        self._others: list[tuple[int, Row]] = []
        for place, row in enumerate(row for table in tables for row in table):
            heads = tuple(_heads(row))
            for head in heads:
                self._by_head.setdefault(head, []).append((place, row))
            if not heads:
                self._others.append((place, row))
        anchors = {anchor for _, row in self._others for anchor in row.anchors}
        self._any_anchor = re.compile(b"|".join(re.escape(anchor) for anchor in sorted(anchors)) or b"(?!)")

    def find(self, message: bytes) -> tuple[Row, re.Match[bytes]] | None:
        """The first row that matches, and its match."""
        candidates = self._by_head.get(message[:_HEAD], [])
        if self._any_anchor.search(message) is not None:
            candidates = sorted([*candidates, *self._others], key=lambda candidate: candidate[0])
        for _, row in candidates:
            if any(anchor in message for anchor in row.anchors):
                pattern = row.pattern
                found = pattern.match(message) if isinstance(row, MarkRow) else pattern.search(message)
                if found is not None:
                    return row, found
        return None


def _heads(row: Row) -> Iterator[bytes]:
    """The first letters of every message that the row can match; none where that cannot be told."""
    regex = row.pattern.pattern
    if not isinstance(row, MarkRow):
        if not regex.startswith(b"^"):
            return
        regex = regex[1:]
    choice = _CHOICE.match(regex)
    starts = [regex]
    if choice is not None:
        starts = choice[1].split(b"|") + ([regex[choice.end() :]] if choice[2] else [])
    found = [_LITERAL.match(start) for start in starts]
    for head in found:
        if head is None:
            return
    yield from dict.fromkeys(head[0] for head in found if head is not None)
