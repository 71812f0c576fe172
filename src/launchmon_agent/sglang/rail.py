"""The phases of a run in a row, as the screen shows them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launchmon_agent.events import Progress
from launchmon_agent.sglang.rank_phases import ORDER, RankTrack, slower
from launchmon_agent.sglang.spans import Span

RAIL = (
    *("start", "spawn", "dist-init", "weights", "kv-pool", "autotune", "graphs", "draft"),
    *("http", "warm-up", "ready"),
)
"""Every phase of a launch, in the order in which they are shown."""


@dataclass(frozen=True)
class Cell:
    phase: str
    state: str  # pending | running | done | skipped | stopped | failed
    begin: float | None = None  # of the first rank, seconds since the epoch
    end: float | None = None  # of the last rank; None while the phase goes on
    seconds: float | None = None  # time during which any rank was in it: pauses between its parts do not count
    slowest_rank: str | None = None  # the one that is in it still, or left it last
    progress: Progress | None = None
    also: tuple[str, ...] = ()  # what goes on inside it: "download", "jit"


def cell(phase: str, spans: Sequence[Span], tracks: Sequence[RankTrack], now: float, *, passed: bool) -> Cell:
    """The cell of one phase. ``passed``: a later phase was seen. ``tracks``: the ranks, for those that are behind."""
    if not spans:
        return Cell(phase, "skipped" if passed else "pending")
    begin = min(span.begin for span in spans)
    running = [span for span in spans if span.end is None]
    behind = [track for track in tracks if _is_behind(track, phase)]
    progress = max((span.progress for span in spans if span.progress), key=lambda bar: bar.at, default=None)
    also = tuple(sorted({name for track in tracks if track.open in running for name in track.nested}))
    seconds = _covered(spans, now)
    if any(span.failed for span in spans):
        failed = min((span for span in spans if span.failed), key=lambda span: span.end or now)
        return Cell(phase, "failed", begin, failed.end, seconds, _rank(failed, phase), progress)
    if running or behind:
        if behind:
            slowest = behind[0]
            for track in behind[1:]:
                slowest = slower(slowest, track)
            rank: str | None = slowest.rank
        else:
            rank = _rank(max(running, key=lambda span: span.begin), phase)
        return Cell(phase, "running", begin, None, seconds, rank, progress, also)
    last = max(spans, key=lambda span: span.end or now)
    if any(span.stopped for span in spans):
        return Cell(phase, "stopped", begin, last.end, seconds, _rank(last, phase), progress)
    return Cell(phase, "done", begin, last.end, seconds, _rank(last, phase), progress)


def _is_behind(track: RankTrack, phase: str) -> bool:
    """Whether a rank that lives has yet to come to a phase that others have left."""
    return phase in ORDER and phase != "spawn" and not track.dead and -1 < track.position < ORDER[phase]


def _rank(span: Span, phase: str) -> str | None:
    return span.rank if phase in ORDER or phase == "draft" else None


def _covered(spans: Sequence[Span], now: float) -> float:
    total, until = 0.0, float("-inf")
    for begin, end in sorted((span.begin, max(span.begin, now if span.end is None else span.end)) for span in spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
