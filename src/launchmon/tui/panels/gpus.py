"""The GPU panel: one line a GPU, or all of them in one line where there is no room."""

from __future__ import annotations

import re

from launchmon import format as fmt
from launchmon.config import Config
from launchmon.tui.panels.node_column import named, shown_node
from launchmon.tui.view import View
from launchmon.tui.widgets.curve import ROOMY, curve
from launchmon.tui.widgets.lines import Row, Span, joined_within, row_width
from launchmon.tui.widgets.panel import Content, Panel, Space, dated
from launchmon.tui.widgets.table import Cell, Column, Layout, lay_out
from launchmon_agent.events import Gpu, Gpus

COLUMNS = (
    Column("node", "NODE", 4),
    Column("index", "GPU", 3, align="right"),
    Column("name", "", 8, rank=6, most=22, grows=3),
    Column("memory", "mem GiB", 9, align="right"),
    Column("fill", "", 6, rank=3, most=16, grows=1),
    Column("filled", "", 6, rank=9, most=24, grows=1),
    Column("slope", "mem/s", 8, rank=7, align="right"),
    Column("util", "util", 4, align="right"),
    Column("history", "", 6, rank=4, most=40, grows=2),
    Column("power", "W", 7, rank=1, align="right"),
    Column("drawn", "", 6, rank=8, most=24, grows=1),
    Column("heat", "°C", 3, rank=2, align="right"),
    Column("rank", "rank", 4, rank=5, most=8),
)

NOTE = 30
"""Most cells for what is wrong with a GPU. It is news, and stays longer than what is at rest."""

SUMMARY_BELOW = 4
"""With fewer lines than this, a summary tells more than the first of the GPUs would."""

_VENDOR = re.compile(r"^(NVIDIA|AMD|GeForce|Instinct)\s+", re.IGNORECASE)


class GpusPanel(Panel, can_focus=True):
    HELP = (
        "One line a GPU: memory in use and in total, utilisation, power against its limit, temperature, and the rank "
        "that lives there. The small curves have a bar for each second, newest right, from nothing to all. A dash "
        "means that the driver does not tell. A GPU at 100% that draws idle power only spins; memory that is equal on "
        "all GPUs and does not move means that nobody is loading."
    )

    def __init__(self, hot_c: float = Config.hot_c, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        """``hot_c``: from here on, the temperature of a GPU is marked."""
        super().__init__(id=id)
        self._hot_c = hot_c

    def content(self, view: View, space: Space) -> Content:
        gpus, width = view.model.gpus, space.width
        if gpus is None:
            return Content(head=(dated(_heading("waiting for the first sample", "muted"), view, width),))
        if gpus.error is not None or not gpus.gpus:
            return Content(head=(dated(_heading(_absence(gpus), "warn"), view, width),))
        if space.limit < min(SUMMARY_BELOW, len(gpus.gpus) + 1):
            return Content(head=(dated(summary(gpus, width), view, width),))
        noted = max(len(_note(gpu)) for gpu in gpus.gpus)
        notes = (Column("note", "", min(NOTE, noted), rank=1),) if noted else ()
        columns = [
            column for column in named(COLUMNS, view, width) if width >= ROOMY or column.name not in ("filled", "drawn")
        ]
        layout = lay_out([*columns, *notes], width - 1)
        title = layout.heading()
        if gpus.source == "simulated":
            title = _titled(layout, "simulated")
        return Content(
            head=(dated(title, view, width),),
            body=tuple(_gpu(gpu, view, layout, self._hot_c) for gpu in gpus.gpus),
        )


def short_name(name: str | None) -> str:
    """``NVIDIA H200`` → ``H200``: the vendor is no news."""
    return fmt.UNKNOWN if name is None else _VENDOR.sub("", _VENDOR.sub("", name))


def summary(gpus: Gpus, width: int) -> Row:
    """All GPUs in one line; a range where they differ. The last facts leave where there is no room."""
    cards = gpus.gpus
    names = sorted({short_name(gpu.name) for gpu in cards})
    broken = [gpu for gpu in cards if gpu.error is not None]
    what = f"{len(cards)} × {names[0]}" if len(names) == 1 else fmt.plural(len(cards), "GPU")
    totals = {gpu.memory_total for gpu in cards if gpu.memory_total is not None}
    total = fmt.number(totals.pop() / fmt.GIB) if len(totals) == 1 else fmt.UNKNOWN
    used = fmt.span_of([None if gpu.memory_used is None else gpu.memory_used / fmt.GIB for gpu in cards], "{:.1f}")
    head: Row = ((" ", "plain"), ("GPU", "title"), ("  ", "plain"))
    parts: list[Row] = [
        ((what, "plain"),),
        (("✗ " + fmt.plural(len(broken), "GPU gives no values", "GPUs give no values"), "bad"),) if broken else (),
        (("mem ", "muted"), (f"{used}/{total}", "plain")),
        (("util ", "muted"), (fmt.span_of([gpu.util_percent for gpu in cards]) + "%", "plain")),
        ((fmt.span_of([gpu.power_w for gpu in cards]), "plain"), (" W", "muted")),
        ((fmt.span_of([gpu.temperature_c for gpu in cards]), "plain"), (" °C", "muted")),
    ]
    if gpus.source == "simulated":
        parts.insert(1, (("simulated", "warn"),))
    return (*head, *joined_within(parts, width - row_width(head)))


def _gpu(gpu: Gpu, view: View, layout: Layout, hot_c: float) -> Row:
    node = shown_node(gpu.node, view, layout.width_of("node"))
    if gpu.error is not None:
        before = f"{node[0]:<{layout.width_of('node')}}{' ' * layout.gap}" if view.nodes else ""
        return ((f" {before}{gpu.index:>3}  ", "plain"), (f"✗ {fmt.one_line(gpu.error)}", "bad"))
    full = gpu.memory_used / gpu.memory_total if gpu.memory_used is not None and gpu.memory_total else None
    hot = gpu.temperature_c is not None and gpu.temperature_c >= hot_c
    heat = f"!{fmt.number(gpu.temperature_c)}" if hot else fmt.number(gpu.temperature_c)
    widest = max(layout.width_of(name) for name in ("filled", "history", "drawn"))
    past = view.model.samples.of_gpu(gpu.index, gpu.node)[-widest:] if widest else ()
    used = [None if one is None else one.memory_used for one in past]
    util = [None if one is None else one.util_percent for one in past]
    power = [None if one is None else one.power_w for one in past]
    filled, rest = fmt.bar(full, layout.width_of("fill"))
    cells: dict[str, Cell] = {
        "node": node,
        "index": (str(gpu.index), "plain"),
        "name": (short_name(gpu.name), "muted"),
        "memory": (fmt.used_of(gpu.memory_used, gpu.memory_total), "plain"),
        "fill": ((filled, "data"), (rest, "muted")),
        "filled": curve(used, layout.width_of("filled"), gpu.memory_total),
        "slope": _slope(gpu.memory_slope),
        "util": (fmt.percent(gpu.util_percent), "plain" if gpu.util_percent else "muted"),
        "history": curve(util, layout.width_of("history"), 100.0),
        "power": (_power(gpu), "plain"),
        "drawn": curve(power, layout.width_of("drawn"), gpu.power_limit_w),
        "heat": (heat, "warn" if hot else "plain"),
        "rank": (_rank_on(gpu, view), "plain"),
        "note": (_note(gpu), "warn"),
    }
    return layout.row(cells)


def _slope(bytes_per_second: float | None) -> Span:
    if bytes_per_second is None:
        return (fmt.UNKNOWN, "muted")
    if abs(bytes_per_second) < fmt.KIB**2:
        return ("0", "muted")
    sign = "+" if bytes_per_second > 0 else "-"
    return (f"{sign}{fmt.size(abs(bytes_per_second))}", "plain")


def _power(gpu: Gpu) -> str:
    if gpu.power_w is None and gpu.power_limit_w is None:
        return fmt.UNKNOWN
    return f"{fmt.number(gpu.power_w)}/{fmt.number(gpu.power_limit_w)}"


def _note(gpu: Gpu) -> str:
    notes = []
    if gpu.ecc_uncorrected:
        notes.append(f"! ECC {gpu.ecc_uncorrected}")
    if gpu.throttle:
        notes.append(f"! {' '.join(gpu.throttle)}")
    return " ".join(notes)


def _rank_on(gpu: Gpu, view: View) -> str:
    place = (gpu.node, gpu.index)
    return " ".join(row.rank for row in view.model.rank_rows() if (row.node, row.gpu) == place and row.rank)


def _absence(gpus: Gpus) -> str:
    if gpus.error is not None:
        return fmt.one_line(gpus.error)
    return "none on this machine" if gpus.source == "none" else "the driver lists none"


def _heading(text: str, tone: str) -> Row:
    return ((" ", "plain"), ("GPU", "title"), ("  ", "plain"), (text, tone))


def _titled(layout: Layout, word: str) -> Row:
    """The heading with a word in the first empty column title that is wide enough."""
    place = next((name for name in ("fill", "history", "name") if layout.width_of(name) >= len(word)), None)
    titles: dict[str, Cell] = {column.name: (column.title, "title") for column, _ in layout.columns}
    if place is not None:
        titles[place] = (word, "warn")
    return layout.row(titles)
