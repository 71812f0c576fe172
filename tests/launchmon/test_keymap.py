from __future__ import annotations

import string

import pytest
from textual import keys

from launchmon.actions import ACTIONS, by_id
from launchmon.keymap import key, rebound


@pytest.mark.parametrize("character", string.punctuation)
def test_each_character_has_textual_s_name(character: str) -> None:
    assert key(character) == keys._character_to_key(character)


@pytest.mark.parametrize("name", sorted({name for action in ACTIONS for name in action.keys}))
def test_every_key_of_the_table_can_be_named(name: str) -> None:
    assert key(name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("^K", "ctrl+k"),
        ("Ctrl+K", "ctrl+k"),
        ("PgUp", "pageup"),
        ("Esc", "escape"),
        ("K", "K"),
        ("shift+f5", "shift+f5"),
    ],
)
def test_keys_are_named_as_people_do(text: str, name: str) -> None:
    assert key(text) == name


@pytest.mark.parametrize("text", ["", "hyper+x", "ctrl+", "F99", "two", "\x1b", "kill"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="key"):
        key(text)


def test_only_the_actions_that_are_named_get_other_keys() -> None:
    kill, stacks = rebound([by_id("kill"), by_id("stacks")], {"kill": ("K",)})
    assert kill.keys == ("K",)
    assert stacks is by_id("stacks")
