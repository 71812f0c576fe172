"""Releases as numbers and ranges."""

from __future__ import annotations

import pytest

from launchmon_agent.sglang.versions import Versions, number


@pytest.mark.parametrize(
    "version, wanted",
    [
        ("0.5.6.post1", (0, 5, 6)),
        ("0.5.0rc0", (0, 5, 0)),
        ("0.5.23", (0, 5, 23)),
        ("1.0", (1, 0, 0)),
        ("0.0.0", None),
        ("0.0.0.dev1+gabc", None),
        ("main", None),
        (None, None),
    ],
)
def test_numbers(version: str | None, wanted: tuple[int, ...] | None) -> None:
    assert number(version) == wanted


@pytest.mark.parametrize(
    "text, inside, outside",
    [
        ("all", ("0.2.15", "9.9.9"), ()),
        ("0.5.8+", ("0.5.8", "0.5.8.post1", "0.6.0"), ("0.5.7", "0.5.7.post3")),
        ("0.4.3-0.5.7", ("0.4.3", "0.5.7.post1", "0.5.0rc0"), ("0.4.2.post4", "0.5.8")),
        ("-0.5.2", ("0.2.15", "0.5.2"), ("0.5.3",)),
        ("0.5.6", ("0.5.6", "0.5.6.post2"), ("0.5.5", "0.5.7")),
    ],
)
def test_ranges(text: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    versions = Versions.parse(text)
    assert [versions.holds(version) for version in inside] == [True] * len(inside)
    assert [versions.holds(version) for version in outside] == [False] * len(outside)


def test_a_version_that_is_not_known_decides_nothing_but_all() -> None:
    assert Versions.parse("0.5.8+").holds(None) is None
    assert Versions.parse("0.5.8+").holds("0.0.0") is None
    assert Versions.parse("all").holds(None) is True


@pytest.mark.parametrize("text", ["", "-", "+", "0.5.8-", "0", "x+", "0.5.8-0.5.7", "0.5.8+0.5.9", "all+", "0.5.8 +"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="no range"):
        Versions.parse(text)
