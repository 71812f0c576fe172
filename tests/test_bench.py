"""The benches stay runnable, and their table says what was missed and what was not measured."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict

import pytest

from tests.bench import bench_cluster, bench_verdicts, result
from tests.bench.__main__ import benches, document
from tests.bench.result import Result


@pytest.mark.parametrize("name", benches())
def test_each_bench_gives_results(name: str) -> None:
    assert callable(importlib.import_module(f"tests.bench.bench_{name}").results)


@pytest.fixture(scope="module")
def verdicts() -> list[Result]:
    return list(bench_verdicts.results(True))


def test_what_a_bench_yields_survives_the_way_to_the_table(verdicts: list[Result]) -> None:
    for found in (verdicts, list(bench_cluster.results(True))):
        assert found and [result.read(json.dumps(asdict(one))) for one in found] == found


def test_every_verdict_comes_in_time(verdicts: list[Result]) -> None:
    assert verdicts and [result.row(one) for one in verdicts if not one.kept] == []


def test_the_document_is_honest() -> None:
    rows = [
        Result("dump", 640.0, "ms", 500),
        Result("index", 55.0, "%", 50, at_least=True),
        Result("marks", 774.0, "MB/s", ratio=0.79, against="grep -E"),
    ]
    text = document(["2 × a processor"], rows, ["nvitop: is not installed here"], quick=True)
    assert "| dump | 640 ms | at most 500 ms  MISSED |  |" in text
    assert "| index | 55.0 % | at least 50 % |  |" in text
    assert "| marks | 774 MB/s |  | 0.79 × grep -E |" in text
    assert "- nvitop: is not installed here" in text and "- measured with `--quick`" in text
