"""The column that says on which node something is: in panels of a run on several nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from launchmon import format as fmt
from launchmon.tui.view import View
from launchmon.tui.widgets.curve import ROOMY
from launchmon.tui.widgets.lines import Span
from launchmon.tui.widgets.table import Column

NAME = 16
"""Most cells for a node's number and name."""


def named(columns: Iterable[Column], view: View, width: int) -> list[Column]:
    """``columns`` without the one called ``node`` where there is one node; with the names in it where there is room."""
    if not view.nodes:
        return [column for column in columns if column.name != "node"]
    longest = max(len(_name(node.number, view)) for node in view.nodes)
    wide = min(NAME, longest) if width >= ROOMY else 0
    return [replace(column, width=max(column.width, wide)) if column.name == "node" else column for column in columns]


def shown_node(number: int | None, view: View, width: int) -> Span:
    """``1 gpu8`` where that fits, else ``1``; ``✗ 1`` of a node that is not heard: its values are old."""
    if number is None:
        return (fmt.UNKNOWN, "muted")
    if any(node.number == number and node.link != "live" for node in view.nodes):
        return (f"✗ {number}", "bad")
    name = _name(number, view)
    return (name if len(name) <= width else fmt.clip(name, width) if width > 4 else str(number), "muted")


def _name(number: int, view: View) -> str:
    label = next((node.label for node in view.nodes if node.number == number), "")
    return f"{number} {label}".rstrip()
