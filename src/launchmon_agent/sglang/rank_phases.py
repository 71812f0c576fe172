"""The phases of one rank, from its marks. Pure.

Marks are a partial order (SGLang 0.2.15 to 0.5.23): a launch shows some of the phases, and a later one ends all earlier
ones. What the releases do differently, and how it is read here:

- up to 0.4.2 no line ends the distributed set-up: the weights end it;
- with speculative decoding, up to 0.5.13, the draft model repeats the whole sequence after the target's graphs, its
  distributed set-up included; from 0.5.14 its weights follow the target's, then come the pools and graphs of both;
- with overlapped loading (0.5.18) the weights are only committed after the graphs: their span reaches that far;
- with post-capture sizing (0.5.17) the pool before the graphs is a reservation and the real one follows them: the
  phase gets a second span.
"""

from __future__ import annotations

from dataclasses import replace

from launchmon_agent.events import Mark, Progress
from launchmon_agent.sglang.spans import DRAFT, TARGET, Span, Track

ORDER = {"spawn": 0, "dist-init": 1, "weights": 2, "kv-pool": 3, "autotune": 4, "graphs": 5}
_NEXT = {"dist-init": "weights", "weights": "kv-pool", "kv-pool": "graphs"}
"""What a rank is in when a phase has ended and nothing else was said."""


class RankTrack(Track):
    """One scheduler, from its spawn to the engine being up."""

    def __init__(self, rank: str, spawned_at: float | None = None) -> None:
        super().__init__(rank)
        self.done_at: float | None = None  # its part of the launch is over
        self.dead = False
        self._models_loaded = 0  # "Load weight begin" lines
        if spawned_at is not None:
            self.begin("spawn", spawned_at)

    @property
    def kv_done(self) -> bool:
        return any(span.phase == "kv-pool" and span.end is not None and not span.implicit for span in self.spans)

    @property
    def position(self) -> float:
        """How far it is, comparable between ranks. The draft's weights come before the pools where those do."""
        span = self.current
        if self.done_at is not None or span is None:
            return len(ORDER) + 1.0 if self.done_at is not None else -1.0
        if span.model == DRAFT:
            return ORDER["weights"] + 0.5 if span.phase == "weights" and not self.kv_done else ORDER["graphs"] + 0.5
        return float(ORDER[span.phase])

    def mark(self, mark: Mark) -> None:
        if mark.id == "pool_ready":
            self.finish(mark.at)
        elif mark.phase == "jit":
            self.nested.setdefault("jit", None)
        elif mark.id == "commit":
            self._commit(mark)
        elif mark.id == "kv_final":
            self._end_late("kv-pool", mark, DRAFT if mark.values.get("model") else TARGET)
        elif mark.phase in ORDER and self.done_at is None:
            model = self._model(mark)
            if mark.what == "begin":
                self._begin_phase(mark.phase, mark.at, model)
            elif mark.what == "end":
                self._end_phase(mark.phase, mark, model)
            elif mark.what == "info":
                self._inform(mark.phase, mark.at, model)

    def take_progress(self, progress: Progress) -> None:
        """A bar's refresh may come after the mark that ended its phase."""
        phase = progress.phase
        if phase in ("jit", "download"):
            if self.open is not None:
                self.nested[phase] = progress
            return
        if phase not in ORDER:
            return
        if self.newest(phase) is None and self.done_at is None:
            self._inform(phase, progress.at, TARGET)
        place = self.newest(phase)
        if place is not None:
            self.spans[place] = replace(self.spans[place], progress=progress, implicit=False)

    def finish(self, at: float) -> None:
        """The rank has said that it is up, or something later on has."""
        if self.done_at is None:
            self.done_at = at
            self._leave(at)

    def fail(self, at: float) -> None:
        self.dead = True
        self.close(at, failed=True)

    def stop(self, at: float) -> None:
        """It has ended as was asked for. Of a rank that was up nothing is cut short."""
        self.dead = self.dead or self.done_at is None
        self.close(at, stopped=True)

    # ---------------------------------------------------------------------------------------------------------- inside

    def _model(self, mark: Mark) -> str:
        """Whose weights, pool or graphs a mark is about."""
        if mark.phase == "weights":
            self._models_loaded += mark.what == "begin"
            return DRAFT if self._models_loaded > 1 else TARGET
        if mark.phase == "dist-init":
            return DRAFT if self._models_loaded else TARGET
        if mark.phase == "graphs":
            return DRAFT if "draft" in mark.values.get("of", "") else TARGET
        return DRAFT if self._models_loaded > 1 and self.kv_done else TARGET

    def _begin_phase(self, phase: str, at: float, model: str) -> None:
        span = self.open
        if span is not None and (span.phase, span.model, span.implicit) == (phase, model, False):
            return
        self._leave(at, phase)
        newest = self.spans[-1] if self.spans else None
        if newest is not None and phase == "graphs" and (newest.phase, newest.model) == (phase, model):
            self.reopen()  # graphs are captured in several goes: prefill, decode, each step
        else:
            self.begin(phase, at, model)

    def _end_phase(self, phase: str, mark: Mark, model: str) -> None:
        at, stated = mark.at, number(mark.values.get("s"))
        span = self.open
        if span is not None and (span.phase, span.model) == (phase, model):
            self.change(implicit=False)
            self.close(at, stated_s=stated)
        else:
            self._end_late(phase, mark, model)
        following = _NEXT.get(phase)
        if following is not None and self._may_follow(following, model):
            self.begin(following, at, self._model_after(following, model), implicit=True)

    def _end_late(self, phase: str, mark: Mark, model: str) -> None:
        """An end whose begin was not seen, or of a phase that was taken for over: it lasted since the line before."""
        at, stated = mark.at, number(mark.values.get("s"))
        span = self.current
        if span is None or (span.end is None and not span.implicit):
            earliest = at
        else:
            earliest = span.begin if span.end is None else span.end
        since = min(at, max(earliest, at - (at if stated is None else stated)))
        self._leave(since, phase)
        self.begin(phase, since, model)
        self.close(at, stated_s=stated)

    def _commit(self, mark: Mark) -> None:
        place = self.newest("weights")
        if place is None:
            self._end_late("weights", mark, TARGET)
            return
        self.spans[place] = replace(
            self.spans[place], end=mark.at, stated_s=number(mark.values.get("s")), implicit=False
        )

    def _inform(self, phase: str, at: float, model: str) -> None:
        span = self.open
        if span is not None and span.phase == phase:
            self.change(implicit=False)
        elif (span is None or ORDER[phase] > ORDER[span.phase]) and self.newest(phase) is None:
            self._leave(at, phase)
            self.begin(phase, at, model)

    def _leave(self, at: float, phase: str | None = None) -> None:
        """Close what is open; what was only assumed did not happen, unless the next phase needs it done."""
        span = self.open
        if span is not None and span.implicit and not (phase in ORDER and ORDER[phase] > ORDER[span.phase]):
            self.drop()
        else:
            self.close(at)

    def _may_follow(self, phase: str, model: str) -> bool:
        return not any(
            (span.phase, span.model) == (phase, self._model_after(phase, model)) and not span.implicit
            for span in self.spans
        )

    def _model_after(self, phase: str, model: str) -> str:
        """From 0.5.14 the draft's weights are followed by the target's pool, and its pool by the target's graphs."""
        if phase == "kv-pool":
            return model if self.kv_done else TARGET
        captured = any(span.phase == "graphs" and not span.implicit for span in self.spans)
        return model if captured or phase != "graphs" else TARGET


def number(text: str | None) -> float | None:
    """A number as it was printed; None where it is none."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def slower(left: RankTrack, right: RankTrack) -> RankTrack:
    """The one that is less far; of two in the same phase the one that entered it later."""
    return max((left, right), key=lambda track: (-track.position, _entered(track.current)))


def _entered(span: Span | None) -> float:
    return 0.0 if span is None else span.begin
