"""A screen as SVG: text in a fixed grid, readable in any browser, without a font or a script of its own."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from rich.cells import cell_len

from tests.support.still import Still

CELL = 8.4
"""Width of one character; each run is stretched to its cells, whatever font there is."""

LINE = 17
SIZE = 14
MARGIN = 14
FONTS = "'Cascadia Mono','DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace"


def svg(still: Still, title: str) -> str:
    """``title`` is read out in place of the picture. The look of most cells is that of the frame around them."""
    ground = _ground(still)
    width, height = still.width * CELL + 2 * MARGIN, len(still.rows) * LINE + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'font-family="{FONTS}" font-size="{SIZE}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{ground}"/>\n'
    )
    return "".join((head, *_cells(still, ground), "</svg>\n"))


def _ground(still: Still) -> str:
    cells: dict[str, int] = {}
    for row in still.rows:
        for text, looks in row:
            colour = _Looks(looks).behind
            cells[colour] = cells.get(colour, 0) + cell_len(text)
    return max(cells, key=lambda colour: cells[colour])


class _Looks:
    """``bold #e0e0e0 on #121212``, as :mod:`tests.support.still` writes it."""

    def __init__(self, looks: str) -> None:
        *words, self.front, _, self.behind = looks.split(" ")
        if "reverse" in words:
            self.front, self.behind = self.behind, self.front
        self.bold, self.dim = "bold" in words, "dim" in words
        self.underline = "underline" in words


def _cells(still: Still, ground: str) -> Iterator[str]:
    for number, row in enumerate(still.rows):
        top, column = MARGIN + number * LINE, 0
        texts = []
        for text, looks in row:
            cells, look = cell_len(text), _Looks(looks)
            if look.behind != ground:
                yield (
                    f'<rect x="{MARGIN + column * CELL:g}" y="{top}" width="{cells * CELL:g}" height="{LINE}" '
                    f'fill="{look.behind}"/>\n'
                )
            bare = text.strip(" ")
            if bare:
                begin = column + len(text) - len(text.lstrip(" "))
                texts.append(_text(bare, begin, top, look))
            column += cells
        yield from texts


def _text(text: str, column: int, top: int, look: _Looks) -> str:
    ways = ' font-weight="bold"' if look.bold else ""
    ways += ' opacity="0.6"' if look.dim else ""
    ways += ' text-decoration="underline"' if look.underline else ""
    words = escape(text).replace(" ", "&#160;")
    return (
        f'<text x="{MARGIN + column * CELL:g}" y="{top + SIZE - 1}" textLength="{cell_len(text) * CELL:g}" '
        f'lengthAdjust="spacingAndGlyphs" fill="{look.front}"{ways}>{words}</text>\n'
    )
