"""The attempts of a series beside each other, and all that is known of one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launchmon.format import UNKNOWN, duration, one_line, wrap
from launchmon.tui.panels.rail import phase_words
from launchmon.tui.panels.verdict import KINDS
from launchmon.tui.relaunch.rows import TONES
from launchmon.tui.widgets.facts import fact, indented, paragraph
from launchmon.tui.widgets.lines import Row
from launchmon.tui.widgets.table import Cell, Column, lay_out
from launchmon_agent.sglang.rail import RAIL

LONG = ("weights", "kv-pool", "graphs", "warm-up")
"""Phases that take time: their columns stay longest."""


def table_rows(ledger: Mapping[str, Any], selected: int, width: int) -> tuple[Row, list[Row]]:
    """The heading, and one row an attempt, oldest first."""
    attempts = ledger["attempts"]
    phases = [phase for phase in RAIL if any(phase in one["seconds"] for one in attempts)]
    columns = [
        Column("mark", "", 1),
        Column("number", "#", 3, align="right"),
        Column("change", "CHANGE", 16, rank=2, most=44, grows=3),
        Column("phase", "GOT TO", 9, rank=5),
        *(
            Column(one, phase_words(one), max(5, len(one)), rank=4 if one in LONG else 6, align="right")
            for one in phases
        ),
        Column("ready", "ready in", 8, align="right"),
        Column("verdict", "VERDICT", 20, rank=1, most=28),
        Column("exit", "EXIT", 6, rank=3),
    ]
    layout = lay_out(columns, width)
    body = []
    for place, one in enumerate(attempts):
        glyph, words, tone = _verdict(one)
        phase = one["phase"]
        cells: dict[str, Cell] = {
            "mark": ("▶", "key") if place == selected else (" ", "plain"),
            "number": (f"{'★' if one['best'] else ' '}{one['attempt']}", "strong" if one["best"] else "plain"),
            "change": ("  ".join(one["change"]) or first_words(one), "plain" if one["change"] else "muted"),
            "phase": (phase_words(phase) if phase else UNKNOWN, "plain"),
            "ready": (duration(one["ready_s"]), "good" if one["ready_s"] is not None else "muted"),
            "verdict": (f"{glyph} {words}", tone),
            "exit": (ending(one), "plain"),
        }
        for name in phases:
            # The last phase that was entered is where it stopped, or still is.
            cut = name == phase and one["ready_s"] is None
            cells[name] = (duration(one["seconds"].get(name)), "warn" if cut else "plain")
        body.append(layout.row(cells))
    return layout.heading(), body


def detail_rows(ledger: Mapping[str, Any], selected: int, width: int) -> list[Row]:
    """One attempt in full, then what the newest changes against the last that worked."""
    one, width = ledger["attempts"][selected], min(width - 2, 110)
    glyph, words, tone = _verdict(one)
    rows: list[Row] = fact("verdict", f"{glyph} {words}", width, tone)
    rows += fact("", one["summary"], width)
    lived = f"for {duration(one['lasted_s'])} so far" if one["alive"] else f"ended after {duration(one['lasted_s'])}"
    ended = "" if one["alive"] else f", {_ending_words(one)}"
    rows += fact("lasted", lived + ended, width)
    for at, line in enumerate(one["change"] or (first_words(one),)):
        label = "change" if at == 0 else ""
        rows += fact(label, line, width, TONES.get(line[:1], "muted"))
    times = " · ".join(
        f"{phase_words(name)} {duration(one['seconds'][name])}" for name in RAIL if name in one["seconds"]
    )
    rows += fact("times", times, width)
    rows += fact("run", one["id"], width, "muted")
    rows += fact("command", one["command"], width)
    since = ledger["since_it_worked"]
    if since is not None:
        number = next((row["attempt"] for row in ledger["attempts"] if row["id"] == ledger["worked"]), None)
        rows += [(), *paragraph(f"changed since it last worked (attempt {number}):", width, "title")]
        for line in since or ("nothing",):
            rows += [((f"  {part}", TONES.get(line[:1], "muted")),) for part in wrap(one_line(line), width - 2)]
    return indented(rows)


def first_words(one: Mapping[str, Any]) -> str:
    return "the first" if one["parent"] is None else "nothing changed"


def ending(one: Mapping[str, Any]) -> str:
    """For a column: ``lives``, ``killed``, the exit code, or ``–`` where it is not known."""
    if one["alive"]:
        return "lives"
    if one["ended_by"] == "launchmon":
        return "killed"
    return UNKNOWN if one["exit_code"] is None else str(one["exit_code"])


def _ending_words(one: Mapping[str, Any]) -> str:
    if one["ended_by"] == "launchmon":
        return "stopped by launchmon"
    return "exit code not known" if one["exit_code"] is None else f"exit code {one['exit_code']}"


def _verdict(one: Mapping[str, Any]) -> tuple[str, str, str]:
    kind = one["verdict"]
    if kind is None:
        return UNKNOWN, "none", "muted"
    return KINDS.get(kind, ("?", kind.upper(), "muted"))


def place_of(attempts: Sequence[Mapping[str, Any]], run: str | None) -> int:
    """Where a run stands; the last place where it is not there."""
    return next((at for at, one in enumerate(attempts) if one["id"] == run), len(attempts) - 1)
