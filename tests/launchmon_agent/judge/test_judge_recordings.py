"""The logs of real runs, second by second, beside processes as they were: what is said at each moment."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launchmon_agent.events import Event, Exit, Http, Log, Mark, Process, Processes, Run, Verdict
from launchmon_agent.judge.verdict import judge
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.ranks import expected_ranks
from launchmon_agent.sglang.run import run_from_args
from tests.support.story import BUSY, DEADLOCKS, IDLE

LOGS = Path(__file__).parents[2] / "recordings" / "logs"
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))
STAMP = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


Sample = Callable[[str, float], dict[str, object]]
"""Rank and seconds since the first line → fields of its process."""


def seconds_of(name: str) -> list[tuple[float, bytes]]:
    """The log in pieces, one for each second in which it was written."""
    pieces: list[tuple[float, bytes]] = []
    for line in (LOGS / f"{name}.log").read_bytes().splitlines(keepends=True):
        found = STAMP.match(line)
        at = time.mktime(time.strptime(found[1].decode(), "%Y-%m-%d %H:%M:%S")) if found else None
        if at is not None and (not pieces or at > pieces[-1][0]):
            pieces.append((at, line))
        elif pieces:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + line)
        else:
            pieces.append((0.0, line))
    first = next((at for at, _ in pieces if at), 1000.0)
    return [(at or first, data) for at, data in pieces]


def replay(name: str, sample: Sample, *, after: float = 5.0) -> Iterator[tuple[float, Verdict, RunModel]]:
    """Each second of a run with its verdict; ``after`` its last line the log stays silent."""
    model, window, scanner = RunModel(), EvidenceWindow(), MarkScanner()
    pieces = seconds_of(name)
    begin, offset, grown_at = pieces[0][0] - 1.0, 0, 0.0

    def take(event: Event) -> None:
        model.fold(event)
        window.fold(event)
        if isinstance(event, Mark) and event.id == "args" and model.run is not None:
            take(replace(run_from_args(model.run, event), at=event.at))

    take(Run(begin, id=name, pid=100, start_time=begin, port=30000))
    ranks: list[str] = []
    at = begin
    while pieces or at - grown_at <= after:
        while pieces and pieces[0][0] <= at:
            _, data = pieces.pop(0)
            for event in scanner.feed(offset, data, at):
                take(event)
            offset, grown_at = offset + len(data), at
        if not ranks and model.marks("args") and model.run is not None:
            ranks = expected_ranks(model.run)
        rows = [Process(100, begin, "launcher", **IDLE)]
        for place, rank in enumerate(ranks):
            rows.append(Process(200 + place, begin, "scheduler", rank=rank, **{**BUSY, **sample(rank, at - begin)}))
        take(Processes(at, tuple(rows)))
        take(Log(at, size=offset, grown_at=grown_at, last=scanner.last_lines()))
        listening = bool(model.marks("http")) and model.phases.outcome() != "failed"
        take(Http(at, port=30000, owner_pid=100, ours=True, listening=listening, model_info=200))
        yield at - begin, judge(model, window, at), model
        at += 1.0


def works(_rank: str, _second: float) -> dict[str, object]:
    return {"read_bps": 0.0}


@pytest.mark.parametrize("name", NAMES)
def test_no_real_log_is_called_dead_locked_beside_processes_that_work(name: str) -> None:
    kinds = {verdict.verdict for _, verdict, _ in replay(name, works, after=60.0)}
    assert not kinds & set(DEADLOCKS)
    assert not kinds & {"one-behind", "rank-missing", "waiting-lock", "hung-serving"}


@pytest.mark.parametrize("name", NAMES)
def test_the_end_of_each_log_is_read_as_it_was(name: str) -> None:
    *_, (_, verdict, model) = replay(name, works)
    outcome = model.phases.outcome()
    if outcome == "failed":
        take = EvidenceWindow()
        model.fold(Exit(model.now + 1, 100, None, "launcher", None, -9))
        verdict = judge(model, take, model.now + 2)
        assert verdict.verdict == "crashed"
    elif outcome == "stopped":
        assert verdict.verdict in ("stopped", "crashed")
    elif outcome == "ready":
        assert verdict.verdict == "ready"
    else:
        assert verdict.verdict in ("starting", "computing", "http-wait")


@pytest.mark.parametrize(
    ("name", "blames", "words"),
    [
        ("real-tp2-numa-assert", ("TP0",), "SGLANG_CPU_OMP_THREADS_BIND is not set"),
        ("real-memfrac", ("TP0",), "the fraction has to go up"),
        ("real-kill9-TP1-during-import", ("TP1",), "Rank 1 scheduler died"),
        ("real-badflag", ("launcher",), "does not take this command line"),
        ("real-badpath", ("launcher",), "neither a directory here nor a model of the hub"),
        ("dp-attention-tp2", ("DP0 TP0",), "NotImplementedError"),
        ("tp2-rank-stuck-in-load-soft-watchdog-then-killed", ("TP1",), "gave up"),
    ],
)
def test_the_cause_of_a_real_failure_is_named(name: str, blames: tuple[str, ...], words: str) -> None:
    *_, (_, _, model) = replay(name, works)
    model.fold(Exit(model.now + 1, 100, None, "launcher", None, -9))
    verdict = judge(model, EvidenceWindow(), model.now + 2)
    assert (verdict.verdict, verdict.blames) == ("crashed", blames), verdict.summary
    assert words in verdict.summary


def test_a_real_node_alone_waits_for_its_peer() -> None:
    said = [
        (at, verdict) for at, verdict, _ in replay("real-nnodes2-only-node0", lambda _rank, _at: {**IDLE}, after=60.0)
    ]
    assert said[-1][1].verdict == "waiting-peer"
    assert "127.0.0.1:25123" in said[-1][1].summary
    assert not {verdict.verdict for _, verdict in said} & set(DEADLOCKS)


def test_a_real_rank_that_is_stopped_while_it_imports_is_blamed_at_once() -> None:
    def sample(rank: str, second: float) -> dict[str, object]:
        stopped = rank == "TP1" and 10 <= second <= 35
        return {**IDLE, "state": "T"} if stopped else {}

    said = [(at, verdict) for at, verdict, _ in replay("real-stop-rank1-in-import", sample)]
    behind = [at for at, verdict in said if verdict.verdict == "one-behind"]
    assert behind and 10 <= behind[0] <= 14
    assert all(verdict.blames == ("TP1",) for _, verdict in said if verdict.verdict == "one-behind")
    assert said[-1][1].verdict == "ready"
