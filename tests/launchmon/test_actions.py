from __future__ import annotations

from itertools import combinations

import pytest

from launchmon.actions import ACTIONS, SCOPES, TOGETHER, Action, by_id, in_scope, key_name

AT_ONCE = [("app", *scopes) for scopes in TOGETHER]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_each_action_is_complete(action: Action) -> None:
    assert action.keys
    assert action.label
    assert action.help.endswith(".")
    assert action.scope in SCOPES
    ends_nothing = action.scope == "launch"  # the form is the question, and nothing dies by its answer
    assert action.confirm >= action.changes or ends_nothing, "what changes something on the target asks first"
    assert by_id(action.id) is action


def test_every_scope_is_one_of_a_screen() -> None:
    assert {scope for scopes in AT_ONCE for scope in scopes} == set(SCOPES)


@pytest.mark.parametrize("scopes", AT_ONCE)
def test_no_key_means_two_things_at_once(scopes: tuple[str, ...]) -> None:
    for one, other in combinations(in_scope(*scopes), 2):
        assert not set(one.keys) & set(other.keys), (one.id, other.id)


@pytest.mark.parametrize("scopes", AT_ONCE)
def test_places_in_the_footer_are_unique(scopes: tuple[str, ...]) -> None:
    places = [action.footer for action in in_scope(*scopes) if action.footer]
    assert len(places) == len(set(places))


def test_keys_are_shown_as_a_person_knows_them() -> None:
    assert key_name("slash") == "/"
    assert key_name("ctrl+c") == "^C"
    assert by_id("filter-rank").shown_keys == "0-9"
    assert by_id("play").shown_keys == "Space p"
