"""The wording of each of the 37 releases gives its phases."""

from __future__ import annotations

import pytest

from launchmon_agent.events import Mark, Progress
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.sglang.phases import PhaseBoard, Span
from launchmon_agent.sglang.table import releases
from tests.support.sglang_wording import Wording, launch, speculative_launch

NOW = 1795968600.0
ALL = releases()


def fold(log: bytes) -> PhaseBoard:
    board = PhaseBoard()
    for event in MarkScanner().feed(0, log, NOW):
        board.apply(event)
    return board


def phases(board: PhaseBoard, rank: str) -> list[str]:
    return [span.phase if span.model == "target" else f"draft {span.phase}" for span in of(board, rank)]


def of(board: PhaseBoard, rank: str) -> list[Span]:
    return [span for span in board.spans() if span.rank == rank]


@pytest.mark.parametrize("release", ALL)
def test_a_launch(release: str) -> None:
    board = fold(launch(release))
    words = Wording(release)
    assert board.ranks() == (words.tags(0), words.tags(1))
    expected = ["spawn", "dist-init", "weights", "kv-pool", "autotune", "graphs"]
    if not words.since("0.5.6.post2"):
        expected.remove("autotune")
    for rank in board.ranks():
        assert phases(board, rank) == expected
        assert not [span for span in of(board, rank) if span.end is None or span.implicit]
    assert phases(board, "launcher") == ["start", "http", "warm-up", "ready"]
    assert board.run_phase() == board.outcome() == "ready"
    assert [cell.phase for cell in board.rail(NOW) if cell.state == "done"] == ["start", *expected, "http", "warm-up"]


@pytest.mark.parametrize("release", ALL)
def test_stated_seconds_and_progress_are_kept(release: str) -> None:
    words = Wording(release)
    spans = {span.phase: span for span in of(fold(launch(release)), words.tags(0))}
    assert spans["dist-init"].stated_s == (3.0 if words.since("0.4.9.post6") else None)
    assert spans["weights"].stated_s == (4.0 if words.since("0.5.2") else None)
    assert spans["graphs"].stated_s == (2.0 if words.since("0.4.0") else None)
    weights, graphs = spans["weights"].progress, spans["graphs"].progress
    assert weights is not None
    assert (weights.done, weights.total, weights.percent) == (2, 2, 100.0)
    assert (graphs is not None) == words.since("0.4.4.post4")


@pytest.mark.parametrize("release", [release for release in ALL if ALL.index(release) >= ALL.index("0.4.1.post7")])
def test_a_draft_model_has_phases_of_its_own(release: str) -> None:
    board = fold(speculative_launch(release))
    words = Wording(release)
    if words.since("0.5.14"):
        expected = [
            "spawn",
            "dist-init",
            "weights",
            "draft weights",
            "kv-pool",
            "draft kv-pool",
            "graphs",
            "draft graphs",
        ]
    else:
        one = ["dist-init", "weights", "kv-pool", "graphs"]
        expected = ["spawn", *one, *(f"draft {phase}" for phase in one)]
    for rank in board.ranks():
        assert phases(board, rank) == expected
    assert "draft" in [cell.phase for cell in board.rail(NOW)]
    assert board.run_phase() == "ready"


@pytest.mark.parametrize("release", ALL)
def test_at_each_line_the_run_is_in_a_phase_that_never_goes_back(release: str) -> None:
    scanner, board = MarkScanner(), PhaseBoard()
    board.expect([Wording(release).tags(rank) for rank in (0, 1)])
    seen = ["start"]
    offset = 0
    for line in launch(release).splitlines(keepends=True):
        for event in scanner.feed(offset, line, NOW):
            board.apply(event)
        offset += len(line)
        if board.run_phase() != seen[-1]:
            seen.append(board.run_phase())
    order = [
        "start",
        "spawn",
        "dist-init",
        "weights",
        "kv-pool",
        "graphs",
        "autotune",
        "graphs",
        "http",
        "warm-up",
        "ready",
    ]
    if not Wording(release).since("0.5.6.post2"):
        order = [phase for place, phase in enumerate(order) if place not in (6, 7)]
    assert seen == order


@pytest.mark.parametrize("release", ALL)
def test_arguments_are_read_and_the_key_is_not(release: str) -> None:
    (args,) = [
        event for event in MarkScanner().feed(0, launch(release), NOW) if isinstance(event, Mark) and event.id == "args"
    ]
    assert args.values["model_path"] == "/models/a, b"
    assert args.values["tp_size"] == "2"
    assert "s3cret" not in repr(args)


def test_bars_are_told_by_the_rank_that_draws_them() -> None:
    bars = [event for event in MarkScanner().feed(0, launch("0.5.23"), NOW) if isinstance(event, Progress)]
    assert [(bar.rank, bar.phase) for bar in bars] == [("PP0 TP0 EP0", "weights"), ("PP0 TP0 EP0", "graphs")]
