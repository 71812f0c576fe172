"""Rows of toned text that repaint only what changed. The base of everything the TUI draws.

Text is data here: it is never parsed as markup, and a character that a terminal could obey is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

Span = tuple[str, str]
"""Text and its tone, one of :data:`TONES`."""

Row = tuple[Span, ...]

LOOKS = {
    "plain": "",
    "strong": "bold",
    "muted": "$text-muted",
    "good": "$text-success",
    "busy": "bold $text-primary",
    "data": "$text-primary",
    "curve": "$secondary 60%",
    "warn": "$text-warning",
    "bad": "bold $text-error",
    "title": "bold $text-muted",
    "key": "bold $text-accent",
    "hit": "reverse",
    "badge": "bold reverse $text-warning",
}
"""Tones and how they look, in Textual's words for a style and the theme's variables.

Meanings, not colours: a theme gives each its looks; whoever uses one adds a glyph or a word that says the same.
They are no component classes: for each of those, Textual resolves the whole stylesheet anew in every panel.
"""

_ANSI_LOOKS = {"muted": "dim $text-muted", "curve": "$secondary"}
"""Where the terminal's own colours cannot be blended."""

_FOCUSED_LOOKS = {"title": "bold $text-accent"}

TONES = tuple(LOOKS)

_UNSAFE = "�"


def row_width(row: Iterable[Span]) -> int:
    """Cells a row takes."""
    return sum(cell_len(text) for text, _ in row)


def ends(left: Row, right: Row, width: int, gap: int = 2) -> Row:
    """``left`` and ``right`` at the two ends of ``width`` cells; ``right`` goes when there is no room for both."""
    room = width - row_width(left) - row_width(right)
    if room < gap:
        return left
    return (*left, (" " * room, "plain"), *right)


def overlaid(row: Row, right: Row, width: int) -> Row:
    """``right`` at the end of ``width`` cells, over whatever the row has there."""
    room = max(0, width - row_width(right) - 1)
    left = clipped(row, room)
    return (*left, (" " * (room - row_width(left) + 1), "plain"), *right)


def clipped(row: Row, width: int) -> Row:
    """The row in at most ``width`` cells. ``…`` says that text was cut off, not only space."""
    lost = cell_len("".join(text for text, _ in row).rstrip()) > width
    room = max(0, width - 1 if lost else width)
    out: list[Span] = []
    for text, tone in row:
        take = min(room, cell_len(text))
        if take:
            out.append((set_cell_size(text, take), tone))
        room -= take
    return (*out, ("…", out[-1][1] if out else "plain")) if lost and width > 0 else tuple(out)


def joined(parts: Sequence[Row], separator: Span = (" · ", "muted")) -> Row:
    """Rows side by side with a separator between them; empty ones are left out."""
    out: list[Span] = []
    for part in parts:
        if not part:
            continue
        if out:
            out.append(separator)
        out.extend(part)
    return tuple(out)


def joined_within(parts: Sequence[Row], width: int) -> Row:
    """As :func:`joined`, without the last parts where they do not all fit."""
    kept = [part for part in parts if part]
    while len(kept) > 1 and row_width(joined(kept)) > width:
        kept.pop()
    return joined(kept)


FOCUSED = "▸"
"""In the first cell of the panel that has the focus."""


def pointed(row: Row, focused: bool) -> Row:
    """The row, with :data:`FOCUSED` in its first cell (which is a space) where its panel has the focus."""
    if not focused or not row:
        return row
    (text, tone), *rest = row
    return ((FOCUSED, "title"), (text[1:], tone), *rest)


def safe(text: str) -> str:
    """The text without anything a terminal could obey (control, format and line-end characters)."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else " " if character in "\t\n" else _UNSAFE for character in text
    )


def set_title(widget: Widget, title: str) -> None:
    """Put a text into the border of a widget, as it is: Textual would take it for markup, and fail at some."""
    content = Content(safe(title))
    if widget.border_title != content.markup:
        widget.border_title = content


_VISIBLE_SPACE = ("hit", "badge")
"""Tones in which a space can be seen."""


def merged(row: Row) -> Row:
    """The row in fewer spans that look the same: every change of style costs some 40 bytes to the terminal."""
    out: list[Span] = []
    for text, tone in row:
        if not text:
            continue
        if out:
            before, last = out[-1]
            blank = text.isspace() and tone not in _VISIBLE_SPACE and last not in _VISIBLE_SPACE
            if tone == last or blank:
                out[-1] = (before + text, last)
                continue
        out.append((text, tone))
    return tuple(out)


class Lines(Widget):
    """Shows rows given to :meth:`show`. Its content height is the number of rows."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Lines {
        height: auto;
        width: 1fr;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id, classes=classes)
        self._rows: tuple[Row, ...] = ()
        self._strips: dict[tuple[Row, int], Strip] = {}
        self._looks: dict[str, Style] = {}  # of tones; Textual forgets its own at every repaint

    @property
    def rows(self) -> tuple[Row, ...]:
        return self._rows

    @property
    def text(self) -> str:
        """What is shown, as plain text."""
        return "\n".join("".join(text for text, _ in row) for row in self._rows)

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows; only lines that differ from what is there are painted again."""
        new = tuple(rows)
        old, self._rows = self._rows, new
        if len(old) != len(new):
            self._strips.clear()
            self.refresh(layout=True)
            return
        width = self.size.width
        changed = [Region(0, y, width, 1) for y, row in enumerate(new) if row != old[y]]
        if changed and width:
            if len(self._strips) > 4 * len(new):
                self._strips.clear()
            self.refresh(*changed)

    def get_content_width(self, container: Size, viewport: Size) -> int:  # noqa: ARG002  (Textual's signature)
        return max((row_width(row) for row in self._rows), default=0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return max(1, len(self._rows))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[y]
        strip = self._strips.get((row, width))
        if strip is None:
            strip = self._strips[row, width] = self.paint(row, width)
        return strip

    def paint(self, row: Row, width: int) -> Strip:
        """A row as a strip of exactly ``width`` cells."""
        strip = Strip([Segment(safe(text), self.tone(tone)) for text, tone in merged(row)])
        return strip.adjust_cell_length(width, self._look("", lambda: self.rich_style))

    def tone(self, name: str) -> Style:
        return self._look(name, lambda: self._looks_of(name))

    def _looks_of(self, tone: str) -> Style:
        look = LOOKS[tone]
        if self.app.native_ansi_color:
            look = _ANSI_LOOKS.get(tone, look)
        if self.has_focus:
            look = _FOCUSED_LOOKS.get(tone, look)
        style = self.visual_style + self.app.stylesheet.parse_style(look)
        return style.rich_style

    def _look(self, name: str, find: Callable[[], Style]) -> Style:
        style = self._looks.get(name)
        if style is None:
            style = self._looks[name] = find()
        return style

    def notify_style_update(self) -> None:
        self._strips.clear()
        self._looks.clear()
        super().notify_style_update()
