"""The phase rail: every phase of the launch on one line, with the least important detail leaving first."""

from __future__ import annotations

from collections.abc import Sequence

from launchmon.format import duration, percent
from launchmon.session_like import CellLike
from launchmon.tui.view import View
from launchmon.tui.widgets.lines import Row, joined, row_width
from launchmon.tui.widgets.panel import Content, Panel, Space
from launchmon_agent.events import Progress

GLYPHS = {"pending": "○", "running": "◉", "done": "✓", "skipped": "⊘", "stopped": "■", "failed": "✗"}
TONES = {"pending": "muted", "running": "busy", "done": "good", "skipped": "muted", "stopped": "warn", "failed": "bad"}

DETAIL = (
    # done  pending    running
    ("full", "named", "full"),
    ("full", "counted", "full"),
    ("timed", "named", "full"),
    ("timed", "counted", "full"),
    ("named", "named", "full"),
    ("named", "counted", "full"),
    ("counted", "counted", "full"),
    ("counted", "counted", "brief"),
)
"""Ways to draw the rail, from the widest to the narrowest. ``timed``: only what took :data:`WORTH_S` has its time."""

WORTH_S = 0.95


class Rail(Panel):
    DEFAULT_CSS = """
    Rail { height: 1; max-height: 1; }
    """

    def content(self, view: View, space: Space) -> Content:
        return Content(head=(rail(view.model.phases.rail(view.now), view, space.width),))


def rail(cells: Sequence[CellLike], view: View, width: int) -> Row:
    """The widest way to draw the cells that fits."""
    row: Row = ()
    for done, pending, running in DETAIL:
        row = _drawn(cells, view, done, pending, running)
        if row_width(row) <= width:
            break
    return row


def phase_words(phase: str) -> str:
    """``kv-pool`` → ``kv pool``."""
    return phase.replace("-", " ")


def _drawn(cells: Sequence[CellLike], view: View, done: str, pending: str, running: str) -> Row:
    parts: list[Row] = []
    counted: dict[str, int] = {}
    for place, cell in enumerate(cells):
        how = {"done": done, "skipped": done, "pending": pending}.get(cell.state, running)
        if how != "counted":
            parts.append(_cell(cell, view, how))
            continue
        state = "done" if cell.state == "skipped" else cell.state
        counted[state] = counted.get(state, 0) + 1
        following = cells[place + 1] if place + 1 < len(cells) else None
        if following is None or ("done" if following.state == "skipped" else following.state) != state:
            word = "done" if state == "done" else "to go"
            parts.append(((f"{GLYPHS[state]} ", TONES[state]), (f"{counted.pop(state)} {word}", "muted")))
    return ((" ", "plain"), *joined(parts, ("  ", "plain")))


def _cell(cell: CellLike, view: View, how: str) -> Row:
    glyph, tone, name = GLYPHS[cell.state], TONES[cell.state], phase_words(cell.phase)
    head: Row = ((f"{glyph} ", tone),)
    if cell.state == "pending":
        return (*head, (name, "muted"))
    if cell.state == "skipped":
        return (*head, (f"{name} skipped" if how == "full" else name, "muted"))
    took = _took(cell, view)
    if cell.state == "done":
        told = how == "full" or (how == "timed" and (cell.phase == "ready" or (cell.seconds or 0.0) >= WORTH_S))
        return (*head, (name, "plain"), (f" {took}", "muted")) if told and took else (*head, (name, "plain"))
    words = f"{name} {cell.state}" if cell.state in ("stopped", "failed") else name
    row: Row = (*head, (words, tone))
    if took:
        row = (*row, (f" {took}", tone))
    if cell.state == "running" and cell.progress is not None:
        row = (*row, (f" {progress(cell.progress, brief=how == 'brief')}", "plain"))
    if how == "full" and cell.also:
        row = (*row, (f" +{'+'.join(cell.also)}", "plain"))
    if how == "full" and cell.slowest_rank and cell.state in ("running", "failed"):
        row = (*row, (f" {cell.slowest_rank}", "muted"))
    return row


def _took(cell: CellLike, view: View) -> str:
    if cell.begin is None:
        return ""
    run = view.model.run
    if cell.phase == "ready" and cell.state == "done":
        started = run.start_time if run is not None else None
        return "" if started is None else f"in {duration(cell.begin - started)}"
    return "" if cell.seconds is None else duration(cell.seconds)


def progress(bar: Progress, brief: bool = False) -> str:
    """``62% 5/8 eta 12s``."""
    share = bar.percent if bar.percent is not None else 100 * bar.done / bar.total if bar.total else None
    parts = [] if share is None else [percent(share)]
    if not brief:
        if bar.total:
            parts.append(f"{bar.done}/{bar.total}")
        if bar.eta_s is not None:
            parts.append(f"eta {duration(bar.eta_s)}")
    return " ".join(parts)
