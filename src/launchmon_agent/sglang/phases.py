"""Folds the events of a run into its phases, per rank and as a whole. Pure.

The launcher has the phases ``start``, ``http``, ``warm-up`` and ``ready``, each rank those between. The rules that hold
for one rank are in :mod:`launchmon_agent.sglang.rank_phases`. Unknown wording is no event and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from launchmon_agent.events import LAUNCHER, Action, Event, Exit, LogError, Mark, Progress, Run
from launchmon_agent.sglang.rail import RAIL, Cell, cell
from launchmon_agent.sglang.rank_phases import RankTrack, number, slower
from launchmon_agent.sglang.spans import DRAFT, TARGET, Span, Track
from launchmon_agent.sglang.table import cause_of

__all__ = ["DRAFT", "RAIL", "TARGET", "Cell", "PhaseBoard", "Span"]

_CUT_S = 1.0
"""Stamps are cut to whole seconds: a line can seem this much older than what came before it."""

_GOING_DOWN = frozenset({"sigquit", "sigquit_child"})
"""Errors that name no cause, but with which SGLang takes itself down."""

_COORDINATE = re.compile(r"([A-Z][A-Z_]*?)(\d+)(?: |$)")


class PhaseBoard:
    """Where a launch is. A ``server_args=`` mark begins a new launch and forgets the one before."""

    def __init__(self) -> None:
        self.stated_timings: dict[str, float] = {}  # "Engine startup timings", seconds; a check on the spans
        self._run: Run | None = None
        self._expected: tuple[str, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self.stated_timings = {}
        self._launcher = Track(LAUNCHER)
        self._ranks: dict[str, RankTrack] = {}
        self._args: dict[str, str] = {}
        self._args_at: float | None = None
        self._stopping = False  # the log says that someone asked the run to end; it is read in order
        self._killed_at: float | None = None  # when launchmon began to end it
        self._failed = False
        self._port_lost = False  # a ready line after that comes from the server that has the port

    # ------------------------------------------------------------------------------------------------------------ fold

    def expect(self, ranks: Iterable[str]) -> None:
        """Ranks that this node should have: they count from their spawn, before they write their first line."""
        self._expected = tuple(ranks)
        self._add_expected()

    def apply(self, event: Event) -> None:
        """Take one event in. Only runs, marks, progress, errors, exits and kills have a meaning here."""
        match event:
            case Run():
                self._run = event
                if event.start_time is not None and not self._launcher.spans and not self._ranks:
                    self._launcher.begin("start", event.start_time)
            case Mark(id="args"):
                self._begin_launch(event)
            case Mark(rank="launcher"):
                self._launcher_mark(event)
            case Mark():
                self._rank_mark(event)
            case Progress():
                self._take_progress(event)
            case LogError():
                self._take_error(event)
            case Exit():
                self._take_exit(event)
            case Action(action="kill"):
                self._take_kill(event)

    def _begin_launch(self, mark: Mark) -> None:
        self._forget()
        self._args = mark.values
        self._args_at = mark.at
        self._launcher.begin("start", self._started_at(mark))
        self._launcher.close(mark.at)
        self._add_expected()

    def _started_at(self, mark: Mark) -> float:
        started = None if self._run is None else self._run.start_time
        if started is not None and started <= mark.at + _CUT_S:
            return min(started, mark.at)
        first = number(mark.values.get("first_line_at"))
        return mark.at if first is None else min(first, mark.at)

    def _add_expected(self) -> None:
        strangers = [rank for rank in self._ranks if rank not in self._expected]
        if strangers:
            return  # the tags differ from what the command line made us expect: those in the log are right
        for rank in self._expected:
            self._track(rank)

    def _track(self, rank: str) -> RankTrack:
        track = self._ranks.get(rank)
        if track is None:
            track = self._ranks[rank] = RankTrack(rank, self._args_at)
        return track

    def _rank_mark(self, mark: Mark) -> None:
        if mark.rank not in self._ranks and self._expected and mark.rank not in self._expected:
            for rank in self._expected:  # see _add_expected
                if rank in self._ranks and len(self._ranks[rank].spans) <= 1:
                    del self._ranks[rank]
        track = self._track(mark.rank)
        track.mark(mark)
        if mark.id == "pool_ready":
            for peer in self._ranks.values():
                self._finish_with_group(peer, mark.at)
        else:
            self._finish_with_group(track, mark.at)
        if self._all_up() and not self._launcher_is_past("http"):
            up_at = max(done for done in (peer.done_at for peer in self._ranks.values()) if done is not None)
            self._launcher.begin("http", up_at, implicit=True)

    def _finish_with_group(self, track: RankTrack, at: float) -> None:
        """Only the first rank of a group says that it is up, and a group comes up together."""
        span = track.current
        if track.done_at is not None or not track.kv_done or span is None or (span.end is None and not span.implicit):
            return
        group = self._group(track.rank)
        if any(peer.done_at is not None and self._group(peer.rank) == group for peer in self._ranks.values()):
            track.finish(at)

    def _group(self, rank: str) -> tuple[str | None, str | None]:
        coordinates = dict(_COORDINATE.findall(rank))
        attention_dp = self._args.get("enable_dp_attention") == "True" or self._args.get("attn_dp_size", "1") != "1"
        if attention_dp or (self._run is not None and self._run.attention_dp):
            coordinates.pop("DP", None)
        return coordinates.get("DP"), coordinates.get("PP")

    def _all_up(self) -> bool:
        tracks = self._ranks.values()
        return any(track.done_at is not None for track in tracks) and all(
            track.done_at is not None or track.dead for track in tracks
        )

    def _launcher_mark(self, mark: Mark) -> None:
        if mark.id == "engine":
            self._keep_timings(mark)
        if mark.id in ("stop", "stopped"):
            self._stopping = True
            if self._launcher_is_past("ready"):
                self._launcher.close(mark.at)
        elif mark.phase == "jit":
            slowest = self._slowest()
            if slowest is not None:
                slowest.nested.setdefault("jit", None)
        elif mark.phase == "ready":
            if not self._port_lost:
                self._failed = False  # what looked fatal was not
                self._launcher_enters("ready", mark.at)
        elif mark.phase == "warm-up":
            self._launcher_enters("warm-up", mark.at)
        elif mark.phase == "http":
            self._http_mark(mark)

    def _http_mark(self, mark: Mark) -> None:
        up_at = [track.done_at for track in self._ranks.values() if track.done_at is not None]
        self._launcher_enters("http", max((at for at in up_at if at <= mark.at), default=mark.at), mark.at)
        self._launcher.change(implicit=False)
        if mark.what == "end":
            self._launcher_enters("warm-up", mark.at)

    def _launcher_enters(self, phase: str, at: float, said_at: float | None = None) -> None:
        """The launcher is in a phase that no rank can be before: each has reported."""
        for track in self._ranks.values():
            track.finish(at if said_at is None else said_at)
        if not self._launcher_is_past(phase):
            self._launcher.begin(phase, at)

    def _launcher_is_past(self, phase: str) -> bool:
        """Whether the launcher is in this phase already, or further."""
        reached = max((RAIL.index(span.phase) for span in self._launcher.spans), default=-1)
        return reached >= RAIL.index(phase)

    def _keep_timings(self, mark: Mark) -> None:
        found = [(name, text) for name, text in mark.values.items() if name != "cuda_graph"]
        graphs = re.findall(r"(\w+)=([\d.]+)", mark.values.get("cuda_graph", ""))
        for name, text in (*found, *((f"cuda_graph.{part}", text) for part, text in graphs)):
            seconds = number(text)
            if seconds is not None:
                self.stated_timings[name] = seconds

    def _take_progress(self, progress: Progress) -> None:
        track = self._ranks.get(progress.rank) or self._slowest()
        if track is not None:
            track.take_progress(progress)

    def _take_error(self, error: LogError) -> None:
        self._port_lost = self._port_lost or error.id == "port_taken"
        cause = cause_of(error.detail) if error.detail else None
        if cause is not None and cause.id == "interrupted":
            self._stopping, self._failed = True, False
        elif self._asked_for(error.at) or error.severity not in ("fatal", "consequence"):
            return
        elif error.rank in self._ranks:
            self._failed = True
            self._ranks[error.rank].fail(error.at)
            self._launcher.close(error.at, failed=True)
        elif error.severity == "fatal" or error.id in _GOING_DOWN:
            self._fail_all(error.at)

    def _take_exit(self, event: Exit) -> None:
        if event.role == "launcher":
            if self._asked_for(event.at):
                self._launcher.close(event.at, stopped=True)
                for track in self._ranks.values():
                    track.stop(event.at)
            elif event.code == 0 and self._launcher_is_past("ready"):
                self._launcher.close(event.at)
            else:
                self._fail_all(event.at)
        elif event.rank is not None and event.rank in self._ranks:
            if self._asked_for(event.at):
                self._ranks[event.rank].stop(event.at)
            else:
                self._failed = True
                self._ranks[event.rank].fail(event.at)

    def _take_kill(self, step: Action) -> None:
        if self._killed_at is None:
            self._killed_at = step.at
            if self._launcher_is_past("ready"):
                self._launcher.close(step.at)

    def _asked_for(self, at: float) -> bool:
        """Whether what ends at this time was asked to: that is no failure."""
        return self._stopping or (self._killed_at is not None and at >= self._killed_at - _CUT_S)

    def _fail_all(self, at: float) -> None:
        self._failed = True
        if not self._launcher.spans and not self._ranks:
            self._launcher.begin("start", at)
        self._launcher.close(at, failed=True)
        for track in self._ranks.values():
            track.fail(at)

    # ------------------------------------------------------------------------------------------------------------ read

    def ranks(self) -> tuple[str, ...]:
        """The ranks that were expected or have written a mark."""
        return tuple(self._ranks)

    def spans(self) -> tuple[Span, ...]:
        """All spans, the launcher's first, then rank by rank in order of time."""
        return (*self._launcher.spans, *(span for track in self._ranks.values() for span in track.spans))

    def current(self, rank: str) -> Span | None:
        """Where a rank is: its open phase, the launcher's once the rank is up, or the last one it was in."""
        track = self._ranks.get(rank)
        if track is None:
            return self._launcher.current if rank == LAUNCHER else None
        if track.done_at is not None and not track.dead and self._launcher_is_past("http"):
            return self._launcher.current
        return track.current

    def is_up(self, rank: str) -> bool:
        """Whether a rank's part of the launch is over: it turns in its event loop and waits for requests."""
        track = self._ranks.get(rank)
        return track is not None and track.done_at is not None and not track.dead

    def run_phase(self) -> str:
        """The phase of the run: that of its slowest living rank, or the launcher's where no rank is before it."""
        if self._launcher_is_past("http"):
            return self._launcher.spans[-1].phase
        slowest = self._slowest()
        if slowest is not None and slowest.current is not None:
            return slowest.current.rail_phase
        return "start" if self._args_at is None else "spawn"

    def outcome(self) -> str:
        """How the launch went, as far as the events tell: launching | ready | failed | stopped.

        A log that goes quiet tells nothing: a stuck launch stays "launching", a killed server "ready".
        """
        if self._failed or self._stopping or self._killed_at is not None:
            return "failed" if self._failed else "stopped"
        return "ready" if self._launcher_is_past("ready") else "launching"

    def rail(self, now: float) -> tuple[Cell, ...]:
        """One cell for each phase that this launch has or may still have. ``now`` ends the open spans."""
        by_phase: dict[str, list[Span]] = {phase: [] for phase in RAIL}
        for span in self.spans():
            by_phase[span.rail_phase].append(span)
        tracks = tuple(self._ranks.values())
        reached = max((place for place, phase in enumerate(RAIL) if by_phase[phase]), default=-1)
        return tuple(
            cell(phase, by_phase[phase], tracks, now, passed=place < reached)
            for place, phase in enumerate(RAIL)
            if by_phase[phase] or self._may_come(phase)
        )

    def _may_come(self, phase: str) -> bool:
        if phase == "autotune":
            return False
        if phase == "draft":
            return self._args.get("speculative_algorithm", "NGRAM").upper() != "NGRAM"  # n-grams need no model
        if phase == "graphs":
            return self._args.get("disable_cuda_graph") != "True" and self._args.get("device") != "cpu"
        if phase in ("http", "warm-up"):
            return self._args.get("node_rank", "0") == "0" and (self._run is None or self._run.node_rank == 0)
        return True

    def _slowest(self) -> RankTrack | None:
        """Of the ranks that live and are not up; of all when there is none."""
        found = None
        behind = [track for track in self._ranks.values() if not track.dead and track.done_at is None]
        for track in behind or self._ranks.values():
            found = track if found is None else slower(found, track)
        return found
