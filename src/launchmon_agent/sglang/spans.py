"""The phases of one process as spans of time. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from launchmon_agent.events import Progress

TARGET, DRAFT = "target", "draft"


@dataclass(frozen=True)
class Span:
    """One process in one phase. Times are seconds since the epoch, by the log."""

    phase: str
    rank: str
    begin: float
    end: float | None = None  # None: still in it
    stated_s: float | None = None  # what SGLang itself printed as elapsed
    model: str = TARGET  # target | draft: the draft model of speculative decoding is loaded like a model of its own
    implicit: bool = False  # it follows from the phase before; no line of this phase was seen
    progress: Progress | None = None  # the newest refresh of its bar
    failed: bool = False
    stopped: bool = False  # cut short by an end that somebody asked for

    @property
    def rail_phase(self) -> str:
        """The phase under which the run shows it: all of the draft model's are one."""
        return "draft" if self.model == DRAFT else self.phase


class Track:
    """The spans of one process, oldest first. At most the last opened one is open."""

    def __init__(self, rank: str) -> None:
        self.rank = rank
        self.spans: list[Span] = []
        self.nested: dict[str, Progress | None] = {}  # "jit", "download" inside the open span, and their bars
        self._open: int | None = None

    @property
    def open(self) -> Span | None:
        return None if self._open is None else self.spans[self._open]

    @property
    def current(self) -> Span | None:
        """The open span, else the newest."""
        return self.open or (self.spans[-1] if self.spans else None)

    def begin(self, phase: str, at: float, model: str = TARGET, *, implicit: bool = False) -> None:
        """Open a span, and close what is open. Times never run backwards within a track."""
        self.close(at)
        self.spans.append(Span(phase, self.rank, at, model=model, implicit=implicit))
        self._open = len(self.spans) - 1
        self.nested = {}

    def close(self, at: float, *, stated_s: float | None = None, failed: bool = False, stopped: bool = False) -> None:
        span = self.open
        if span is None:
            return
        stated = stated_s if span.stated_s is None else span.stated_s + (stated_s or 0.0)
        self.change(end=max(at, span.begin), stated_s=stated, failed=failed or span.failed, stopped=stopped)
        self._open = None
        self.nested = {}

    def reopen(self) -> None:
        """Open the newest span again: its phase goes on after a pause."""
        self._open = len(self.spans) - 1
        self.change(end=None)

    def drop(self) -> None:
        """Forget the open span: it was assumed and did not come."""
        if self._open is not None:
            del self.spans[self._open]
            self._open = None

    def change(self, **fields: object) -> None:
        """Change the open span."""
        if self._open is not None:
            self.spans[self._open] = replace(self.spans[self._open], **fields)  # type: ignore[arg-type]

    def newest(self, phase: str) -> int | None:
        """The place of the newest span of a phase."""
        for place in range(len(self.spans) - 1, -1, -1):
            if self.spans[place].phase == phase:
                return place
        return None
