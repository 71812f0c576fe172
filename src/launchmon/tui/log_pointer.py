"""The line of a log that is pointed at, and the lines that a person has bookmarked. Pure."""

from __future__ import annotations

from launchmon.tui.log_buffer import Viewport
from launchmon.tui.log_fold import Shown


class Pointer:
    """Points into what a viewport shows. Lines are known by their offsets in the log."""

    def __init__(self, viewport: Viewport) -> None:
        self.current: int | None = None
        """Where a search, a jump, a click or a key arrived; it counts while it is on the screen."""
        self.bookmarks: set[int] = set()
        self._port = viewport
        self._went: tuple[int, int] | None = None

    def forget(self) -> None:
        """Offsets mean nothing any more: another file begins."""
        self.current = self._went = None
        self.bookmarks.clear()

    def arrive(self, offset: int) -> bool:
        """Point at the line that holds ``offset``. False where it is not there: then at the one beside it."""
        lines = self._port.lines
        if not lines:
            self.current = None
            return False
        found = lines[self._port.index_of(offset)]
        self.current = offset if found.holds(offset) else found.line.offset
        self._went = (self.current, offset)
        return self.current == offset

    @property
    def place(self) -> int | None:
        """Which of the shown lines is pointed at; None when none on the screen is."""
        if self.current is None or not any(row.shown.holds(self.current) for row in self._port.rows()):
            return None
        return self._port.index_of(self.current)

    @property
    def shown(self) -> Shown | None:
        """The line that is pointed at, with those that are folded into it."""
        place = self.place
        return None if place is None else self._port.lines[place]

    @property
    def here(self) -> int | None:
        """Where "next" starts: the line pointed at while in sight, else the top; None when following.

        After a jump to a line that a filter hides, it is the place of that line.
        """
        if self.place is not None:
            return self._went[1] if self._went is not None and self._went[0] == self.current else self.current
        rows = self._port.rows()
        return None if self._port.follow or not rows else rows[0].line.offset

    def move(self, rows: int) -> bool:
        """Move by shown lines; from the edge where nothing was pointed at. False: it is out of sight now."""
        port = self._port
        seen = port.rows()
        if not seen:
            return True
        here = self.place
        if here is None:
            place = port.index_of(seen[-1 if rows < 0 else 0].line.offset)
        else:
            place = max(0, min(len(port.lines) - 1, here + rows))
        port.follow = False
        self.current = port.lines[place].line.offset
        return self.place is not None

    def point_at(self, row: int) -> None:
        """Point at the line in this row of the screen; below the last one nothing happens."""
        rows = self._port.rows()
        if row < len(rows):
            self.current = rows[row].line.offset
            self._port.follow = False

    def toggle_bookmark(self) -> bool | None:
        """Of the line that is pointed at, else of the last on the screen while following, else of the first.

        Returns whether it is a bookmark now; None where there is no line.
        """
        rows = self._port.rows()
        if not rows:
            return None
        here = self.place
        line = rows[-1 if self._port.follow else 0].line if here is None else self._port.lines[here].line
        self.bookmarks ^= {line.offset}
        return line.offset in self.bookmarks

    def texts(self) -> list[str]:
        """The line that is pointed at, else all that are on the screen."""
        here = self.place
        if here is not None:
            return [self._port.lines[here].line.text]
        return list({row.line.offset: row.line.text for row in self._port.rows()}.values())
