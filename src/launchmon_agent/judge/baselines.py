"""How long a phase usually takes here: by earlier runs of the same model, size and release, else by a table. Pure.

The first run after a boot reads its files from the disk and the next ones from memory, so cold and warm runs are
compared with their own kind only. What :mod:`launchmon_agent.runs.history` read is an event of the run
(:class:`~launchmon_agent.events.Expected`), so that a replay judges as the watch did.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from launchmon_agent.events import Expected, Run
from launchmon_agent.judge.tables import sections
from launchmon_agent.judge.words import span
from launchmon_agent.model import RunModel

NEWEST = 12
"""Earlier runs that count: what was true of older ones may no longer be."""

LOADED = "weights"
"""A run that came past this phase has read the model's files."""


@dataclass(frozen=True)
class PastRun:
    """The durations of one earlier run on this target. ``phases.json`` of its directory holds it."""

    at: float  # when it began, seconds since the epoch
    model: str | None = None
    version: str | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    nnodes: int = 1
    node_rank: int = 0
    simulated: bool = False
    boot: str | None = None  # the machine's boot id while it ran
    warm: bool | None = None  # the model's files had been read since the boot
    ready: bool = False
    seconds: dict[str, float] = field(default_factory=dict)  # phase → how long; only phases that came to their end

    def is_like(self, run: Run) -> bool:
        """The same model, release and sizes: its durations say something of that run's."""
        ours = (self.model, self.version, self.tp, self.pp, self.dp, self.nnodes, self.node_rank, self.simulated)
        return ours == (
            *(run.model, run.engine_version, run.tp, run.pp, run.dp),
            *(run.nnodes, run.node_rank, run.simulated),
        )

    @property
    def loaded(self) -> bool:
        return LOADED in self.seconds


@dataclass(frozen=True)
class Expectation:
    """Of one phase. Seconds."""

    usual_s: float
    longest_s: float  # below it nothing is unusual
    runs: int = 0  # earlier ones it is taken from; 0: from the table

    @property
    def words(self) -> str:
        """``usually 2 s``, ``by public logs 3 s, seldom beyond 1m00s``."""
        if self.runs:
            return f"usually {span(max(1.0, self.usual_s))}"
        return f"by public logs {span(self.usual_s)}, seldom beyond {span(self.longest_s)}"


def expectation(phase: str, expected: Expected | None) -> Expectation | None:
    """Of a phase of the run that ``expected`` was told of. None: a phase that has no end, such as ``ready``."""
    if expected is not None and phase in expected.usual:
        usual = expected.usual[phase]
        return Expectation(usual, max(usual, expected.longest.get(phase, usual)), expected.runs)
    return _table().get(phase)


def expected_of(run: Run, past: Sequence[PastRun], boot: str | None, at: float) -> Expected:
    """What earlier runs say of this one. ``past`` in any order; later ones than this run are left out."""
    began = run.start_time if run.start_time is not None else at
    like = [one for one in past if one.is_like(run) and one.at < began]
    warm = is_warm(run.model, past, boot, began)
    kind = sorted((one for one in like if one.warm == warm), key=lambda one: one.at)[-NEWEST:]
    phases = {phase for one in kind for phase in one.seconds}
    series = {phase: [one.seconds[phase] for one in kind if phase in one.seconds] for phase in sorted(phases)}
    return Expected(
        at,
        runs=len(kind),
        warm=warm,
        usual={phase: _median(values) for phase, values in series.items()},
        longest={phase: max(values) for phase, values in series.items()},
    )


def is_warm(model: str | None, past: Sequence[PastRun], boot: str | None, before: float) -> bool | None:
    """Whether an earlier run has read this model's files since the machine was started. None: it cannot be known."""
    if model is None or boot is None:
        return None
    return any(one.model == model and one.boot == boot and one.loaded and one.at < before for one in past)


def past_run(model: RunModel, now: float, boot: str | None, warm: bool | None) -> PastRun | None:
    """A run as its successors will want to know it; None where nothing is known of it yet."""
    run = model.run
    if run is None or run.start_time is None:
        return None
    cells = model.phases.rail(now)
    return PastRun(
        at=run.start_time,
        model=run.model,
        version=run.engine_version,
        tp=run.tp,
        pp=run.pp,
        dp=run.dp,
        nnodes=run.nnodes,
        node_rank=run.node_rank,
        simulated=run.simulated,
        boot=boot,
        warm=warm,
        ready=model.phases.outcome() == "ready",
        seconds={
            cell.phase: cell.seconds
            for cell in cells
            if cell.state == "done" and cell.seconds is not None and cell.phase != "ready"
        },
    )


@functools.cache
def _table() -> dict[str, Expectation]:
    return {
        phase: Expectation(float(fields["usual"]), float(fields["longest"]))
        for phase, fields in sections("expected.table", ("usual", "longest", "source"))
    }


def _median(values: Sequence[float]) -> float:
    """Of at least one value. The library's own would cost each start the import of decimals and fractions."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
