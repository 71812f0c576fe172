"""What the relaunch dialog shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launchmon.format import clip, one_line, wrap
from launchmon.tui.relaunch.draft import Base, Draft, Flag, Remedy, Toggle, change_words, removes
from launchmon.tui.relaunch.items import Chosen, Group, Item, Variable
from launchmon.tui.sections import section_rows
from launchmon.tui.widgets.facts import indented, paragraph
from launchmon.tui.widgets.lines import Row, Span, row_width

TITLES = {
    "remedies": ("REMEDIES", "of the verdict"),
    "chosen": ("CHANGES", "Space takes one back"),
    "toggles": ("OFTEN CHANGED", "by concern"),
    "command": ("COMMAND", "Space drops a flag, e edits it"),
    "variables": ("VARIABLES", "that were set or removed for this run"),
}
TONES = {"+": "good", "-": "bad", "~": "warn"}
"""First character of a line of a difference → its tone."""
INDENT = 6
"""Cells before the text of an item: pointer, mark and blanks."""
SUGGESTED = 6
"""Flags that are offered while one is typed."""


def list_rows(
    shown: Sequence[Item], selected: int, draft: Draft, width: int
) -> tuple[list[Row], range | None, list[int]]:
    """As :func:`~launchmon.tui.sections.section_rows` has it."""
    return section_rows(shown, selected, TITLES, lambda item, chosen: item_rows(item, draft, width, selected=chosen))


def item_rows(item: Item, draft: Draft, width: int, *, selected: bool) -> list[Row]:
    subject, pointer = item.subject, "▶" if selected else " "
    if isinstance(subject, Group):
        return [_group(subject, pointer, selected)]
    if isinstance(subject, Remedy):
        return _remedy(subject, draft, pointer, width, selected)
    if isinstance(subject, Toggle):
        return _toggle(subject, draft, pointer, width, selected)
    if isinstance(subject, Chosen):
        return [_line(pointer, _mark(True), subject.word, "strong", "", width)]
    if isinstance(subject, Flag):
        return [_given(subject.name, subject.text, draft, pointer, width)]
    return [_variable(subject, draft, pointer, width)]


def _group(group: Group, pointer: str, selected: bool) -> Row:
    row: list[Span] = [(pointer, "key"), (" ▾ " if group.open else " ▸ ", "plain")]
    row.append((group.concern, "strong" if selected else "plain"))
    row.append((f"  {group.count}", "muted"))
    if group.changed:
        row.append((f" · {group.changed} changed", "warn"))
    return tuple(row)


def _remedy(remedy: Remedy, draft: Draft, pointer: str, width: int, selected: bool) -> list[Row]:
    on = draft.has(remedy.change)
    rows = [_line(pointer, _mark(on), change_words(remedy.change), "strong", "", width)]
    return rows + _reason(remedy.why, remedy.source, width, whole=selected)


def _toggle(toggle: Toggle, draft: Draft, pointer: str, width: int, selected: bool) -> list[Row]:
    on, word = draft.gives(toggle.name, toggle.on), draft.of(toggle.name)
    text = toggle.change
    if word is not None and not removes(word):
        text = word
    elif toggle.on:
        text = f"{toggle.name}={toggle.value}" if toggle.value else toggle.name
    changed = word is not None
    rows = [_line(pointer, _mark(on), text, "strong" if changed else "plain", "" if selected else toggle.why, width)]
    if selected:
        choices = f" One of: {', '.join(toggle.choices)}." if toggle.choices else ""
        rows += _reason(f"{toggle.why}.{choices}", toggle.source, width, whole=True)
    return rows


def _given(name: str, text: str, draft: Draft, pointer: str, width: int) -> Row:
    word = draft.of(name)
    if word is None:
        return _line(pointer, ("    ", "plain"), text, "plain", "", width)
    if removes(word):
        return _line(pointer, ("   -", "bad"), text, "muted", "dropped", width)
    return _line(pointer, ("   ~", "warn"), text, "muted", f"→ {word}", width)


def _variable(variable: Variable, draft: Draft, pointer: str, width: int) -> Row:
    if variable.value is None:
        word = draft.of(variable.name)
        return _line(pointer, ("    ", "plain"), variable.name, "plain", f"→ {word}" if word else "removed", width)
    return _given(variable.name, f"{variable.name}={variable.value}", draft, pointer, width)


def _mark(on: bool) -> Span:
    return (" [x]", "good") if on else (" [ ]", "muted")


def _line(pointer: str, mark: Span, text: str, tone: str, note: str, width: int) -> Row:
    head: Row = ((pointer, "key"), mark, (" ", "plain"), (clip(one_line(text), width - INDENT), tone))
    room = width - row_width(head) - 2
    return (*head, ("  ", "plain"), (clip(one_line(note), room), "muted")) if note and room > 8 else head


def _reason(why: str, source: str, width: int, *, whole: bool) -> list[Row]:
    room = max(20, width - INDENT - 1)
    text = one_line(why)
    if not whole:
        return [((" " * INDENT, "plain"), (clip(text, room), "muted"))] if text else []
    rows: list[Row] = [((" " * INDENT, "plain"), (line, "plain")) for line in wrap(text, room)] if text else []
    if source:
        rows += [((" " * INDENT, "plain"), (line, "muted")) for line in wrap(f"source: {one_line(source)}", room)]
    return rows


def plan_rows(plan: Mapping[str, Any], width: int) -> list[Row]:
    """The difference, what is to be thought of, and the exact command."""
    width = min(width - 2, 110)
    rows: list[Row] = []
    for line in plan["difference"]:
        tone = TONES.get(line[:1], "plain")
        rows += [((" ", "plain"), (part, tone)) for part in wrap(one_line(line), width)]
    if not plan["difference"]:
        rows += indented(paragraph("nothing changes: the same command again", width, "muted"))
    for line in plan["warnings"]:
        rows += indented(paragraph(f"! {line}", width, "warn"))
    rows += [(), ((" ", "plain"), ("COMMAND LINE", "title"), ("  y copies", "muted"))]
    rows += indented(paragraph(plan["command"], width))
    for text in (f"environment: {plan['environment']}", *(f"output: {line}" for line in plan["output"])):
        rows += [(), *indented(paragraph(text, width, "muted"))]
    return rows


def suggestion_rows(text: str, base: Base, width: int) -> list[Row]:
    """The flags that a text which is being typed may become; the whole of one where it is complete."""
    name = text.removeprefix("drop ").strip().partition("=")[0].partition(" ")[0]
    known = base.known or {}
    if not name.startswith("--") or len(name) < 3:
        return []
    if name in known:
        return indented(_described(known[name], width - 2))
    found = [one for one in known if one.startswith(name)] or [one for one in known if name[2:] in one]
    rows: list[Row] = [
        ((" ", "plain"), (one, "strong"), (f"  {clip(_help(known[one]), width - len(one) - 4)}", "muted"))
        for one in sorted(found)[:SUGGESTED]
    ]
    if len(found) > SUGGESTED:
        rows.append(((f" and {len(found) - SUGGESTED} more", "muted"),))
    return rows


def _described(flag: Mapping[str, Any], width: int) -> list[Row]:
    facts = []
    if flag.get("type"):
        facts.append(str(flag["type"]))
    if flag.get("choices"):
        facts.append(f"one of {', '.join(flag['choices'])}")
    if flag.get("default") is not None:
        facts.append(f"default {flag['default']}")
    if flag.get("deprecated"):
        facts.append("deprecated" + (f", use {flag['instead']}" if flag.get("instead") else ""))
    rows: list[Row] = [((flag["name"], "strong"),)]
    if facts:
        rows += paragraph(" · ".join(facts), width)
    return rows + (paragraph(_help(flag), width, "muted") if _help(flag) else [])


def _help(flag: Mapping[str, Any]) -> str:
    return one_line(flag.get("help") or "")
