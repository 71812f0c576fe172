"""The part of the log that the client holds, and the place in it that is on the screen. Pure.

The log stays where it lies; a :class:`LogBuffer` holds a run of lines out of it that a session's windows extend at
either end, and a :class:`Viewport` moves over it in screen rows, which differ from lines where lines are wrapped.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from launchmon.session_like import LineLike, WindowLike
from launchmon.tui.log_fold import PREFIX, Shown, folded, unfolded

KEEP = 2000
"""Lines held. Many screens, so that paging back and forth asks for nothing; little memory, as lines come cut."""


class LogBuffer:
    """Consecutive lines of the log, or of those that are wanted of it."""

    def __init__(self) -> None:
        self.lines: list[LineLike] = []
        self.start = 0
        self.end = 0
        self.at_start = False
        self.at_end = False
        self.size = 0
        self.generation = 0
        self.version = 0
        """Raised with every change."""

    def replace(self, window: WindowLike) -> None:
        self.version += 1
        self.lines = list(window.lines)
        self.start, self.at_start = window.start, window.at_start
        self._take_end(window)

    def prepend(self, window: WindowLike) -> None:
        """Put earlier lines in front; where there are too many then, the last ones go."""
        self.version += 1
        new = [line for line in window.lines if not self.lines or line.offset < self.lines[0].offset]
        self.lines[:0] = new
        self.start, self.at_start = min(self.start, window.start), window.at_start
        if len(self.lines) > KEEP:
            self.end, self.at_end = self.lines[KEEP].offset, False
            del self.lines[KEEP:]

    def append(self, window: WindowLike) -> None:
        """Put later lines behind; where there are too many then, the first ones go.

        A last line that was still being written is replaced by its newer self.
        """
        self.version += 1
        if window.lines and self.lines and window.lines[0].offset == self.lines[-1].offset:
            self.lines.pop()
        self.lines += [line for line in window.lines if not self.lines or line.offset > self.lines[-1].offset]
        self._take_end(window)
        dropped = max(0, len(self.lines) - KEEP)
        if dropped:
            del self.lines[:dropped]
            self.start, self.at_start = self.lines[0].offset, False

    def index_of(self, offset: int) -> int:
        """The line that holds ``offset``, or the nearest one before it; 0 in an empty buffer."""
        return max(0, bisect_right(self.lines, offset, key=lambda line: line.offset) - 1)

    def _take_end(self, window: WindowLike) -> None:
        self.end, self.at_end = window.end, window.at_end
        self.size, self.generation = window.size, window.generation


@dataclass(frozen=True)
class ScreenRow:
    """One row of the viewport: a line, or a part of one that is wrapped."""

    shown: Shown
    text: str
    first: bool  # of its line
    more: bool  # the line goes on beyond what is known of it, or beyond the edge

    @property
    def line(self) -> LineLike:
        return self.shown.line


class Viewport:
    """A place in a buffer: the top line, and the row within it where lines are wrapped."""

    def __init__(self) -> None:
        self.buffer = LogBuffer()
        self.width = 80
        self.height = 10
        self.wrap = False
        self.shift = 0
        """Characters cut off at the left of lines that are not wrapped."""
        self.follow = True
        self.top = 0
        self.sub = 0
        self.fold = False
        """Identical lines of several ranks are shown as one."""
        self._shown: list[Shown] = []
        self._places: dict[int, int] = {}  # offset of a line → which of the shown lines it is, or is folded into
        self._made_of: tuple[LogBuffer, int, bool] | None = None

    def forget(self) -> None:
        """Show the end of a log of which nothing is known yet."""
        self.buffer, self.follow = LogBuffer(), True
        self.top = self.sub = 0

    def resize(self, width: int, height: int) -> None:
        self.width, self.height = max(1, width), max(1, height)
        self.sub = 0
        self._settle()

    def set_wrap(self, wrap: bool) -> None:
        self.wrap, self.sub, self.shift = wrap, 0, 0
        self._settle()

    def set_fold(self, fold: bool) -> None:
        place = self.top_line
        self.fold, self.sub = fold, 0
        if place is not None:
            self.top = self.index_of(place.offset)
        self._settle()

    def prepend(self, window: WindowLike) -> None:
        """Put earlier lines in front. The top line stays where it is."""
        place = self.top_line
        self.buffer.prepend(window)
        self._return_to(place)

    def append(self, window: WindowLike) -> None:
        """Put later lines behind. The top line stays where it is, unless it had to go."""
        place = self.top_line
        self.buffer.append(window)
        self._return_to(place)

    def show_end(self) -> None:
        """The last line at the bottom."""
        self.top, self.sub = len(self.lines), 0
        self._up(self.height)

    def show(self, offset: int, above: int) -> None:
        """The line that holds ``offset``, with ``above`` rows over it where there are as many."""
        self.top, self.sub = self.index_of(offset), 0
        self._up(above)
        self._fill()

    @property
    def lines(self) -> list[Shown]:
        """The lines that can be shown: those of the buffer, or what they fold into."""
        made_of = (self.buffer, self.buffer.version, self.fold)
        if self._made_of != made_of:
            self._made_of = made_of
            self._shown = (folded if self.fold else unfolded)(self.buffer.lines)
            self._places = {
                line.offset: place for place, shown in enumerate(self._shown) for line in (shown.line, *shown.others)
            }
        return self._shown

    def index_of(self, offset: int) -> int:
        """Which of :attr:`lines` holds ``offset``, or the line before it; 0 where there is none."""
        if not self.lines:
            return 0
        return self._places.get(self.buffer.lines[self.buffer.index_of(offset)].offset, 0)

    def scroll(self, rows: int) -> int:
        """Move down (or up, when negative); returns the rows for which the buffer has no lines."""
        if rows < 0:
            return -self._up(-rows)
        return self._down(rows)

    def rows(self) -> list[ScreenRow]:
        """What is to be seen, at most ``height`` rows."""
        out: list[ScreenRow] = []
        index, skip = self.top, self.sub
        while len(out) < self.height and index < len(self.lines):
            out += self._rows_of(self.lines[index])[skip:]
            index, skip = index + 1, 0
        return out[: self.height]

    @property
    def place(self) -> object:
        """All that :meth:`rows` depends on."""
        return (
            self.buffer,
            self.buffer.version,
            self.top,
            self.sub,
            self.width,
            self.height,
            self.wrap,
            self.shift,
            self.fold,
        )

    @property
    def top_line(self) -> LineLike | None:
        lines = self.lines
        return lines[min(self.top, len(lines) - 1)].line if lines else None

    @property
    def at_bottom(self) -> bool:
        """The last line that is held is on the screen."""
        return self._rows_below(self.height + 1) <= self.height

    def _return_to(self, place: LineLike | None) -> None:
        """Put the line at the top again, wherever it is now."""
        if place is not None:
            self.top = self.index_of(place.offset)

    def _up(self, rows: int) -> int:
        while rows and (self.sub or self.top):
            if self.sub:
                self.sub -= 1
            else:
                self.top -= 1
                self.sub = self._height_of(self.top) - 1
            rows -= 1
        return rows

    def _down(self, rows: int) -> int:
        rows_left = rows
        while rows_left and self._rows_below(self.height + 1) > self.height:
            self.sub += 1
            if self.sub >= self._height_of(self.top):
                self.top, self.sub = self.top + 1, 0
            rows_left -= 1
        return rows_left

    def _settle(self) -> None:
        """Keep a sensible place after a change of shape."""
        if self.follow:
            self.show_end()
        else:
            self._fill()

    def _fill(self) -> None:
        """No empty rows below the end while there are lines above."""
        missing = self.height - self._rows_below(self.height)
        if missing > 0:
            self._up(missing)

    def _rows_below(self, most: int) -> int:
        """Rows from the top on, counted up to ``most``."""
        count, index = -self.sub, self.top
        while count < most and index < len(self.lines):
            count += self._height_of(index)
            index += 1
        return min(count, most)

    def _height_of(self, index: int) -> int:
        return len(self._rows_of(self.lines[index])) if self.wrap else 1

    def _rows_of(self, shown: Shown) -> list[ScreenRow]:
        line, text = shown.line, _text_of(shown)
        if not self.wrap:
            cut = text[self.shift :]
            more = line.cut or cell_len(cut) > self.width
            return [ScreenRow(shown, cut, True, more)]
        if not text:
            return [ScreenRow(shown, "", True, False)]
        out, begin = [], 0
        while begin < len(text):
            piece = text[begin : begin + self.width]
            if not piece.isascii():
                piece = _whole_cells(piece, self.width)
            end = begin + len(piece)
            out.append(ScreenRow(shown, piece, begin == 0, line.cut and end == len(text)))
            begin = end
        return out


def _text_of(shown: Shown) -> str:
    """The line, with the number of ranks behind its prefix where it stands for several: ``[… TP0] ×8 Load…``."""
    text = shown.line.text
    if shown.times == 1 or text[:1].isspace():
        return text
    prefix = PREFIX.match(text)
    begin = 0 if prefix is None else prefix.end()
    return f"{text[:begin]}×{shown.times} {text[begin:]}"


def _whole_cells(text: str, width: int) -> str:
    """The longest beginning of ``text`` that takes at most ``width`` cells; at least one character."""
    while len(text) > 1 and cell_len(text) > width:
        text = text[: max(1, len(set_cell_size(text, width)) - 1)]
    return text
