"""How the judge's data files are read."""

from __future__ import annotations

import pytest

from launchmon_agent.judge.tables import TableError, lines, parse, sections, words


def test_sections_with_their_fields_in_order() -> None:
    text = "# a comment\n[b]\nname: one: two\nmore: a\n    b\n\n[a]\nname: x\n"
    assert parse(text, ("name",), ("more",)) == (
        ("b", {"name": "one: two", "more": "a\nb"}),
        ("a", {"name": "x", "more": ""}),
    )


@pytest.mark.parametrize(
    "text",
    ["[a]\n", "[a]\nname:\n", "[a]\nname: x\nother: y\n", "[a]\nname: x\n[a]\nname: y\n", "name: x\n", "[a]\nname\n"],
    ids=["missing", "empty", "unknown", "twice", "no section", "no colon"],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(TableError):
        parse(text, ("name",))


def test_a_table_that_is_not_there() -> None:
    with pytest.raises((TableError, FileNotFoundError)):
        sections("no-such.table", ("name",))


def test_parts_of_a_value() -> None:
    assert lines("a | b\n\n c") == ("a | b", "c")
    assert words("a, b,\nc") == ("a", "b", "c")
    assert words("") == lines("") == ()
