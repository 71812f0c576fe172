"""The logs of real runs give the phases, ranks, errors and end that a person reads in them (expected.table)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from launchmon_agent.events import LogError, Mark
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.sglang.phases import PhaseBoard

LOGS = Path(__file__).parents[2] / "recordings" / "logs"
LOADED = "spawn dist-init weights kv-pool"
SEVERITIES = ("fatal", "error", "consequence")


class Expected(NamedTuple):
    log: str
    launcher: str
    ranks: dict[str, str]
    now: str
    outcome: str
    cause: str


def expectations() -> list[Expected]:
    found = []
    for line in (LOGS / "expected.table").read_text().splitlines():
        if line and not line.startswith("#"):
            log, launcher, ranks, now, outcome, cause = line.split(" | ")
            pairs = [part.split(": ") for part in ranks.split("; ")] if ranks != "-" else []
            found.append(
                Expected(log, launcher, {r: p.replace("loaded", LOADED) for r, p in pairs}, now, outcome, cause)
            )
    return found


class Read:
    """A log, scanned and folded."""

    def __init__(self, log: str) -> None:
        scanner = MarkScanner()
        self.board = PhaseBoard()
        self.marks: list[Mark] = []
        self.errors: dict[int, LogError] = {}
        for event in scanner.feed(0, (LOGS / f"{log}.log").read_bytes()):
            self.board.apply(event)
            if isinstance(event, Mark):
                self.marks.append(event)
            elif isinstance(event, LogError):
                self.errors[event.offset] = event
        self.last = {line.rank: line for line in scanner.last_lines()}

    @property
    def cause(self) -> LogError | None:
        """The first fatal error; without one the first error, without one the first consequence of a failure."""
        if self.board.outcome() != "failed" and not any(
            "KeyboardInterrupt" in str(e.detail) for e in self.errors.values()
        ):
            return None
        for severity in SEVERITIES:
            for _, error in sorted(self.errors.items()):
                if error.severity == severity and error.id != "kill_tree":
                    return error
        return None


def test_every_log_has_an_expectation() -> None:
    assert sorted(row.log for row in expectations()) == sorted(path.stem for path in LOGS.glob("*.log"))


@pytest.mark.parametrize("row", expectations(), ids=lambda row: row.log)
def test_phases_ranks_and_end(row: Expected) -> None:
    board = Read(row.log).board
    phases: dict[str, list[str]] = {}
    for span in board.spans():
        phases.setdefault(span.rank, []).append(span.phase)
    assert " ".join(phases.pop("launcher")) == row.launcher
    assert {rank: " ".join(seen) for rank, seen in phases.items()} == row.ranks
    assert board.ranks() == tuple(row.ranks)
    assert (board.run_phase(), board.outcome()) == (row.now, row.outcome)


@pytest.mark.parametrize("row", expectations(), ids=lambda row: row.log)
def test_first_cause_and_its_rank(row: Expected) -> None:
    cause = Read(row.log).cause
    if row.cause == "-":
        assert cause is None
        return
    assert cause is not None
    facts, _, words = row.cause.partition(": ")
    assert f"{cause.rank} {cause.severity} {cause.id}" == facts
    assert words in (cause.detail or cause.text)


@pytest.mark.parametrize("row", expectations(), ids=lambda row: row.log)
def test_times_agree_with_what_sglang_states(row: Expected) -> None:
    board = Read(row.log).board
    for span in board.spans():
        assert span.end is None or span.end >= span.begin
        if span.stated_s is not None and span.end is not None:
            assert span.end - span.begin == pytest.approx(span.stated_s, abs=1.6)  # stamps are whole seconds
    if board.stated_timings:
        slowest = max(s.stated_s for s in board.spans() if s.phase == "weights" and s.stated_s is not None)
        assert slowest == pytest.approx(board.stated_timings["load_weight"], abs=0.02)


@pytest.mark.parametrize("row", expectations(), ids=lambda row: row.log)
def test_marks_point_at_their_lines(row: Expected) -> None:
    data = (LOGS / f"{row.log}.log").read_bytes()
    for mark in Read(row.log).marks:
        line = data[mark.offset : data.index(b"\n", mark.offset)].decode()
        assert line.startswith("[2026-11-29 ")
        assert mark.text[:60] in line


def test_the_rail_of_a_rank_that_is_stuck_in_its_weights() -> None:
    board = Read("tp2-rank-stuck-in-load-soft-watchdog-then-killed").board
    cells = {cell.phase: cell for cell in board.rail(1795969120.0)}
    assert {phase: cell.state for phase, cell in cells.items()} == {
        "start": "done",
        "spawn": "done",
        "dist-init": "done",
        "weights": "failed",
        "kv-pool": "failed",
        "http": "pending",
        "warm-up": "pending",
        "ready": "pending",
    }
    assert cells["weights"].slowest_rank == "TP1"


def test_last_lines_are_those_of_each_rank() -> None:
    last = Read("two-nodes-node0").last
    assert last["TP0"].text.startswith("RuntimeError: [/__w/pytorch/")
    assert last["launcher"].text == "kill_process_tree called: parent_pid=4891, include_parent=True, pid=4891"
