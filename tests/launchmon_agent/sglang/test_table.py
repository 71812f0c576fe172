"""Every row of the data tables: well formed, of known releases and phases, and matched by an example line."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import launchmon_agent
from launchmon_agent.log.rows import Rows
from launchmon_agent.sglang import table
from launchmon_agent.sglang.phases import RAIL
from launchmon_agent.sglang.prefix import PREFIX

PHASES = {*RAIL, "jit", "download"}
EXAMPLES = (Path(__file__).parent / "examples.log").read_bytes().splitlines()
MARKS, ERRORS, CAUSES, BARS = table.mark_rows(), table.error_rows(), table.cause_rows(), table.bar_rows()

ROUTINE = (
    b"Decode batch, #running-req: 12, #token: 123456, token usage: 0.42, cuda graph: True, accept len: 2.31, "
    b"accept rate: 0.58, gen throughput (token/s): 1234.56, #queue-req: 0\n"
    b"Decode batch [4311]. #running-req: 1, #full token: 99, full token usage: 0.01, est. 3.2 TFLOPS/s\n"
    b"Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.01, #running-req: 0, #queue-req: 0, "
    b"#pending-token: 0, cpu graph: False, input throughput (token/s): 1.87, fwd occupancy: 12%\n"
    b'INFO:     127.0.0.1:33322 - "GET /model_info HTTP/1.1" 200 OK\n'
    b'INFO:     [::1]:33322 - "POST /v1/chat/completions HTTP/1.1" 503 Service Unavailable'
).split(b"\n")
"""What a busy server writes: no literal of the serving column may be in it."""


def name(row: object) -> str:
    return f"{getattr(row, 'id', 'bar')}-{getattr(row, 'what', '')}-{row.pattern.pattern[:30].decode()}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", [*MARKS, *ERRORS, *BARS], ids=name)
def test_versions_are_known_releases_in_order(row: table.MarkRow) -> None:
    order = table.releases()
    assert row.since in order
    assert row.until is None or order.index(row.until) >= order.index(row.since)


@pytest.mark.parametrize("row", MARKS, ids=name)
def test_marks_use_the_words_of_the_vocabulary(row: table.MarkRow) -> None:
    assert row.what in {"begin", "end", "info", "skip"}
    assert row.phase is None or row.phase in PHASES
    assert row.who in {"rank", "launcher", "any"}
    assert not row.pattern.pattern.startswith(b"^")  # it is matched at the start anyway


@pytest.mark.parametrize("row", ERRORS, ids=name)
def test_errors_use_the_words_of_the_vocabulary(row: table.ErrorRow) -> None:
    assert row.severity in {"benign", "warning", "consequence", "error", "fatal"}
    assert row.who in {"rank", "launcher", "any"}


@pytest.mark.parametrize("row", CAUSES, ids=name)
def test_causes_use_the_words_of_the_vocabulary(row: table.CauseRow) -> None:
    assert row.severity in {None, "warning", "consequence", "error", "fatal"}


@pytest.mark.parametrize("row", BARS, ids=name)
def test_bars_have_the_groups_that_are_read(row: table.BarRow) -> None:
    assert row.phase is None or row.phase in PHASES
    assert {"pct", "n", "tot", "eta", "rate"} <= set(row.pattern.groupindex)


@pytest.mark.parametrize("row", [*MARKS, *ERRORS, *CAUSES, *BARS], ids=name)
def test_each_row_has_an_example_that_contains_an_anchor(row: table.MarkRow) -> None:
    mark = isinstance(row, table.MarkRow)
    found = [line for line in EXAMPLES if (row.pattern.match(line) if mark else row.pattern.search(line))]
    assert found, "no line of examples.log"
    for line in found:
        assert any(anchor in line for anchor in row.anchors), line


@pytest.mark.parametrize("row", [row for row in (*MARKS, *ERRORS) if row.serving], ids=name)
def test_lines_that_matter_while_serving_contain_their_literal(row: table.MarkRow) -> None:
    assert row.serving is not None
    for line in EXAMPLES:
        if row.pattern.match(line):
            assert row.serving in line, line


@pytest.mark.parametrize("literal", sorted({row.serving for row in (*MARKS, *ERRORS) if row.serving}))
def test_routine_lines_contain_no_serving_literal(literal: bytes) -> None:
    assert not [line for line in ROUTINE if literal in b"[2026-11-29 17:36:46 DP1 TP0] " + line]


@pytest.mark.parametrize("line", EXAMPLES, ids=lambda line: line[:40].decode("ascii", "replace"))
def test_the_quick_search_finds_what_trying_each_row_finds(line: bytes) -> None:
    found = Rows(MARKS, ERRORS).find(line)
    expected = [row for row in MARKS if row.pattern.match(line)] or [row for row in ERRORS if row.pattern.search(line)]
    assert (None if found is None else found[0]) is (expected[0] if expected else None)


def test_examples_are_messages_without_prefix() -> None:
    assert not [line for line in EXAMPLES if PREFIX.match(line)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("id | two", r"marks.table:1: 2 columns, not 9"),
        ("a | b | c | d | e | f | g | h | (", "unterminated subpattern"),
    ],
)
def test_a_bad_row_is_refused_with_its_place(text: str, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table.pkgutil, "get_data", lambda package, name: text.encode())
    with pytest.raises(table.TableError, match=complaint):
        list(table.rows("marks.table", 9))


def test_cause_of_a_last_line() -> None:
    cause = table.cause_of("RuntimeError: … Connection closed by peer [127.0.0.1]:3309. This is typically …")
    assert cause is not None
    assert (cause.id, cause.severity) == ("peer_lost", "consequence")
    assert table.cause_of("ValueError: something nobody has seen") is None


def test_tables_are_read_from_a_zip_archive(tmp_path: Path) -> None:
    package = Path(launchmon_agent.__file__).parent
    archive = tmp_path / "agent.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        for path in (package / "__init__.py", *sorted((package / "sglang").iterdir())):
            if path.suffix in (".py", ".table"):
                bundle.write(path, path.relative_to(package.parent))
    probe = (
        "import sys; sys.path[:] = [sys.argv[1], *[p for p in sys.path if 'src' not in p]];"
        "from launchmon_agent.sglang import table; assert 'agent.zip' in table.__file__;"
        "print(len(table.mark_rows()), len(table.releases()))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", probe, str(archive)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == [str(len(MARKS)), "37"]


def test_alternatives_at_the_top_level_do_not_hide_behind_a_literal_head() -> None:
    for row in (*MARKS, *ERRORS):
        depth = 0
        for char in re.sub(rb"\\.|\[[^\]]*\]", b"", row.pattern.pattern).decode():
            depth += {"(": 1, ")": -1}.get(char, 0)
            assert char != "|" or depth, row.pattern.pattern
