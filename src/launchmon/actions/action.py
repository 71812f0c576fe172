"""What a row of the table of actions says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """One thing to do. ``keys`` are Textual's key names; a keymap names actions by ``id``."""

    id: str
    keys: tuple[str, ...]
    label: str
    """One to three words, for the footer and the palette."""
    help: str
    """A sentence, for the help screen and the palette."""
    scope: str
    """Where it works: one of :data:`launchmon.actions.SCOPES`."""
    footer: int = 0
    """Place in the footer, from 1 (the last to leave when room is short); 0 keeps it out."""
    confirm: bool = False
    """Asks before it acts."""
    changes: bool = False
    """Changes something on the target; refused where a session is read-only."""
    takes_key: bool = False
    """The key that was pressed is the action's argument."""

    @property
    def shown_keys(self) -> str:
        """The keys as a person knows them."""
        if self.takes_key:
            return f"{self.keys[0]}-{self.keys[-1]}"
        return " ".join(dict.fromkeys(key_name(key) for key in self.keys))


_KEY_NAMES = {
    "slash": "/",
    "question_mark": "?",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "shift+tab": "⇧Tab",
    "space": "Space",
    "plus": "+",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "backslash": "\\",
    "exclamation_mark": "!",
    "ampersand": "&",
    "colon": ":",
    "comma": ",",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "minus": "-",
    "at": "@",
    "shift+up": "⇧↑",
    "shift+down": "⇧↓",
}


def key_name(key: str) -> str:
    """``slash`` → ``/``, ``ctrl+c`` → ``^C``."""
    if key.startswith("ctrl+"):
        return f"^{key[5:].upper()}"
    if key[:1] == "f" and key[1:].isdigit():
        return key.upper()
    return _KEY_NAMES.get(key, key)
