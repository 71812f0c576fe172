"""The table of faults names tests that exist, and every test of this directory is in it."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
_ROW = re.compile(r"^\| (?P<fault>[^|]+) \| (?P<holds>[^|]+) \| (?P<file>\S+)::(?P<test>\w+) \|$")
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def rows() -> list[re.Match[str]]:
    lines = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| ")][1:]
    found = [_ROW.match(line) for line in lines]
    assert None not in found
    return [row for row in found if row is not None]


def test_every_row_names_a_test() -> None:
    assert len({row["fault"] for row in rows()}) == len(rows()) >= 40
    for row in rows():
        assert row["test"] in _TEST.findall((HERE.parent / row["file"]).read_text()), row[0]


def test_every_test_here_has_a_row() -> None:
    named = {row["test"] for row in rows()}
    for path in HERE.glob("test_fault_*.py"):
        if path != Path(__file__):
            assert set(_TEST.findall(path.read_text())) <= named, path.name
