"""What the launch form shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launchmon.format import clip, fit, one_line, wrap
from launchmon.tui.launch.form import MODEL, PYTHON, Built, Installed, Item
from launchmon.tui.relaunch.rows import suggestion_rows
from launchmon.tui.sections import section_rows
from launchmon.tui.widgets.facts import indented, paragraph, refusal_rows
from launchmon.tui.widgets.lines import Row
from launchmon_agent.errors import Refused
from launchmon_agent.sglang.secrets import is_secret_name

TITLES = {
    "needs": ("WHAT IT NEEDS", "Enter fills a row in"),
    "often": ("OFTEN SET", "Space takes a value out"),
    "more": ("MORE", "a adds any flag or variable"),
}
GLYPHS = {"error": ("✗", "bad"), "warning": ("!", "warn"), "note": ("·", "muted")}
LABEL = 14
INDENT = 2
MOST_OFFERED = 8
"""Directories or Pythons that are shown at once."""


def list_rows(shown: Sequence[Item], selected: int, width: int) -> tuple[list[Row], range | None, list[int]]:
    """As :func:`~launchmon.tui.sections.section_rows` has it."""
    return section_rows(shown, selected, TITLES, lambda item, chosen: _item(item, width, selected=chosen))


def _item(item: Item, width: int, *, selected: bool) -> list[Row]:
    room = max(8, width - INDENT - LABEL - 1)
    label = fit(clip(item.label, LABEL - 1), LABEL) if len(item.label) < LABEL else f"{item.label} "
    room -= max(0, len(label) - LABEL)
    row: Row = (
        ("▶ " if selected else "  ", "key"),
        (label, "strong" if selected else "plain"),
        (clip(one_line(_value(item)), room), "strong" if item.value is not None else "muted"),
    )
    if not selected or not item.hint:
        return [row]
    return [row, *(((" " * (INDENT + LABEL), "plain"), (line, "muted")) for line in wrap(item.hint, room))]


def _value(item: Item) -> str:
    if item.is_switch:
        return "on" if item.value is not None else "off"
    if item.value is None:
        return "–" if item.default is None else f"– ({item.default})"
    return "…" if is_secret_name(item.name) else item.value


def result_rows(
    built: Built,
    plan: Mapping[str, Any] | None,
    trouble: Refused | None,
    width: int,
    *,
    fresh: bool,
    cwd: str | None = None,
) -> list[Row]:
    """The command as it is now, then what the target says of it: ``trouble`` where it could not be asked.

    ``cwd``: where it starts. ``fresh``: ``plan`` or ``trouble`` is of this very command.
    """
    width = min(width - 2, 110)
    rows: list[Row] = paragraph(built.shown or "–", width)
    rows += paragraph(f"in {cwd}", width, "muted") if cwd else []
    rows.append(())
    for warning in built.warnings:
        rows += paragraph(f"! {warning}", width, "warn")
    if built.refusal is not None:
        return indented([*rows, *refusal_rows(built.refusal, width)])
    if trouble is not None:
        return indented([*rows, *refusal_rows(trouble, width)])
    if plan is None or not fresh:
        return indented([*rows, (("looking ahead…", "muted"),)])
    if plan["refused"] is not None:
        return indented([*rows, *refusal_rows(Refused.from_json(plan["refused"]), width)])
    findings = plan["findings"]
    for finding in findings:
        rows += _finding(finding, width)
    if not findings:
        rows.append((("✓ nothing speaks against it", "good"),))
    if plan["preparations"]:
        rows += [(), (("PREPARED", "title"), ("  to make it easier to diagnose", "muted"))]
        for line in plan["preparations"]:
            rows += paragraph(line, width, "muted")
    return indented(rows)


def _finding(finding: Mapping[str, Any], width: int) -> list[Row]:
    glyph, tone = GLYPHS.get(str(finding["severity"]), GLYPHS["note"])
    rows = paragraph(f"{glyph} {finding['what']}", width, tone)
    for label, key in (("", "why"), ("try: ", "try")):
        if finding.get(key):
            rows += paragraph(f"  {label}{finding[key]}", width, "plain")
    return rows


def offered_rows(asked: str, text: str, installed: Installed, found: Mapping[str, Any] | None, width: int) -> list[Row]:
    """Above the prompt for the row ``asked``: what may be typed there."""
    if asked == PYTHON:
        known = [(path, f"SGLang {version}" if version else "no SGLang") for path, version in installed.pythons]
        return _choices(known, width)
    if asked == MODEL and found is not None:
        if found["late"]:
            return indented([(("the file system does not answer", "warn"),)])
        listed = [(str(one["path"]), "a model" if one["model"] else "") for one in found["directories"]]
        return _choices(listed, width, more=bool(found["more"]))
    return suggestion_rows(text if asked == "" else asked, installed.known, width)


def _choices(listed: Sequence[tuple[str, str]], width: int, *, more: bool = False) -> list[Row]:
    """``more``: there are others that are not in the list."""
    rows: list[Row] = [
        ((" ", "plain"), (clip(one_line(path), width - 16), "strong"), (f"  {note}", "muted"))
        for path, note in listed[:MOST_OFFERED]
    ]
    if len(listed) > MOST_OFFERED or more:
        rows.append(((f" and {'many' if more else len(listed) - MOST_OFFERED} more", "muted"),))
    return rows
