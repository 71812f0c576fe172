"""Everything a person can do in the TUI, once. Keys, footer, command palette and help are made from this table."""

from __future__ import annotations

from launchmon.actions.action import Action, key_name
from launchmon.actions.beginning import BEGINNING
from launchmon.actions.looking import LOOKING
from launchmon.actions.watching import WATCHING

__all__ = ["ACTIONS", "SCOPES", "TOGETHER", "Action", "by_id", "in_scope", "key_name"]

ACTIONS: tuple[Action, ...] = (*WATCHING, *LOOKING, *BEGINNING)

SCOPES = {
    "app": "Everywhere",
    "run": "The run",
    "nodes": "A run on several nodes",
    "panel": "A panel, or a list, that has the focus",
    "paging": "Where Space turns the page: the run, the stacks, the verdict",
    "replay": "A recording",
    "stacks": "The stacks",
    "verdict": "The verdict",
    "relaunch": "The relaunch",
    "ledger": "The attempts",
    "home": "The list of runs",
    "launch": "A new launch",
}
"""Every scope, with its name for people, in the order in which they are listed."""

TOGETHER = (
    ("run", "panel", "paging"),
    ("run", "nodes", "panel", "paging"),
    ("replay", "run", "panel"),
    ("stacks", "panel", "paging"),
    ("verdict", "panel", "paging"),
    ("relaunch",),
    ("ledger",),
    ("home",),
    ("launch",),
)
"""The scopes of each screen: keys of one row, and those of app, work at the same time and differ."""


def in_scope(*scopes: str) -> list[Action]:
    """Actions of these scopes in the order of the table."""
    return [action for action in ACTIONS if action.scope in scopes]


def by_id(id_: str) -> Action:
    return next(action for action in ACTIONS if action.id == id_)
