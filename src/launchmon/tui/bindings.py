"""The table of actions as Textual key bindings."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.binding import Binding, BindingType

from launchmon.actions import Action, by_id, in_scope, key_name
from launchmon.keymap import rebound


def bindings(*scopes: str) -> list[BindingType]:
    """Bindings for these scopes. An action ``error-next`` calls the method ``action_error_next``."""
    return [binding for action in in_scope(*scopes) for binding in _of(action)]


def bound(app: App[Any], *scopes: str) -> list[Action]:
    """Actions of these scopes with the keys that they have in this app: those of the table, or the person's own."""
    return rebound(in_scope(*scopes), getattr(app, "keys", {}))


def key_of(app: App[Any], id_: str) -> str:
    """The first key of an action, as it is shown."""
    (action,) = rebound([by_id(id_)], getattr(app, "keys", {}))
    return key_name(action.keys[0])


def method(action: Action) -> str:
    return action.id.replace("-", "_")


def _of(action: Action) -> list[BindingType]:
    everywhere = action.id == "quit-now"  # works in a dialog and in a text field too
    if action.takes_key:
        return [
            Binding(key, f"{method(action)}({key!r})", action.label, show=False, id=f"{action.id}-{key}")
            for key in action.keys
        ]
    keys = ",".join(action.keys)
    return [Binding(keys, method(action), action.label, show=False, priority=everywhere, id=action.id)]
