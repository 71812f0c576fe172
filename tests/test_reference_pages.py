"""The pages of docs/ that are made from tables say what those say."""

from __future__ import annotations

import pytest

from launchmon_agent.judge import clocks, remedies
from tests.support.reference_pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_fresh(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "python -m tests.support.reference_pages writes it anew"


def test_every_clock_is_on_its_page() -> None:
    text = (DOCS / "clocks.md").read_text()
    assert [row.id for row in clocks.rows() if row.effect not in text] == []


def test_every_remedy_is_on_its_page() -> None:
    text = (DOCS / "remedies.md").read_text()
    assert text.count("\n## ") == len(remedies.rows())
    assert [row.id for row in remedies.rows() if row.why not in text] == []
