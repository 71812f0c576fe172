"""A series of attempts: what each changed, how far it got, what it took, how it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from launchmon_agent.events import Event, Verdict
from launchmon_agent.model import RunModel
from launchmon_agent.runs.directory import RunFile
from launchmon_agent.sglang.flags.change import command_line, difference
from launchmon_agent.sglang.rail import RAIL


@dataclass(frozen=True)
class Attempt:
    """One run of a series. ``seconds`` has every phase that was entered; the last one may be cut off."""

    id: str
    attempt: int
    parent: str | None
    created: float
    command: str  # for a shell, secrets hidden
    change: tuple[str, ...] = ()  # against the attempt before
    alive: bool = False
    phase: str | None = None  # the furthest that it came to; None: nothing is recorded
    seconds: dict[str, float] = field(default_factory=dict)
    ready_s: float | None = None  # from the start until it was ready; None: it never was
    lasted_s: float | None = None  # until it ended, or until now
    verdict: str | None = None  # kind; the last one before it was ended by launchmon
    summary: str = ""
    exit_code: int | None = None  # of the launcher; None: it lives, or the code is not known
    ended_by: str | None = None  # launchmon: it was killed; itself; None: it lives
    best: bool = False

    @property
    def ready(self) -> bool:
        return self.ready_s is not None


@dataclass(frozen=True)
class Ledger:
    series: str
    attempts: tuple[Attempt, ...]  # oldest first
    best: str | None = None  # id
    since_it_worked: tuple[str, ...] | None = None
    """What the newest attempt changes against the last one that got ready; None: it is that one, or none ever did."""
    worked: str | None = None  # id of that one


def attempt_of(file: RunFile, events: Iterable[Event], now: float, *, alive: bool) -> Attempt:
    """``events``: the recording, with or without samples. ``now``: seconds since the epoch."""
    model, verdict, last = RunModel(), None, file.created
    for event in events:
        model.fold(event)
        last = max(last, event.at)
        if isinstance(event, Verdict) and event.verdict != "stopped" and not _killed(model):
            verdict = event
    exit_ = model.launcher_exit
    end = now if alive else exit_.at if exit_ is not None else last
    entered = [cell for cell in model.phases.rail(end) if cell.begin is not None]
    began = model.run.start_time if model.run is not None and model.run.start_time is not None else file.created
    ready = model.marks("ready")
    return Attempt(
        id=file.id,
        attempt=file.attempt,
        parent=file.parent,
        created=file.created,
        command=command_line(file.argv, file.env, file.cwd),
        change=file.change,
        alive=alive,
        phase=entered[-1].phase if entered else None,
        seconds={cell.phase: cell.seconds for cell in entered if cell.seconds is not None and cell.phase != "ready"},
        ready_s=max(0.0, ready[0].at - began) if ready else None,
        lasted_s=max(0.0, end - began),
        verdict=verdict.verdict if verdict else None,
        summary=verdict.summary if verdict else "",
        exit_code=None if exit_ is None else exit_.code,
        ended_by=None if alive else "launchmon" if _killed(model) else "itself",
    )


def ledger(series: str, files: Sequence[RunFile], attempts: Sequence[Attempt]) -> Ledger:
    """Of all attempts of a series; ``files`` are their run files, in any order."""
    rows = sorted(attempts, key=lambda one: (one.attempt, one.created))
    best = max(rows, key=_goodness, default=None)
    ready = [row for row in rows if row.ready]
    worked, newest = (ready[-1] if ready else None), (rows[-1] if rows else None)
    since = None
    if worked is not None and newest is not None and worked.id != newest.id:
        by_id = {file.id: file for file in files}
        old, new = by_id[worked.id], by_id[newest.id]
        since = difference(old.argv, new.argv, old.env, new.env)
    return Ledger(
        series=series,
        attempts=tuple(replace(row, best=best is not None and row.id == best.id) for row in rows),
        best=None if best is None else best.id,
        since_it_worked=since,
        worked=None if worked is None else worked.id,
    )


def _goodness(row: Attempt) -> tuple[bool, float, float]:
    """Ready before not ready, then the quicker to be ready, else the further, and of equals the later."""
    if row.ready_s is not None:
        return True, -row.ready_s, row.created
    return False, float(RAIL.index(row.phase)) if row.phase in RAIL else -1.0, row.created


def _killed(model: RunModel) -> bool:
    return any(step.action == "kill" for steps in model.actions.values() for step in steps)
