"""A recording in memory: its lines in order, and the model of the run at any moment of it.

Lines are decoded when they are folded, and a jump folds only what still counts: all that happened, but of each kind of
sample those that a model keeps (:data:`KEPT_SAMPLES`). So a jump takes about as long in an hour as in a minute.
"""

from __future__ import annotations

import contextlib
import json
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from launchmon_agent.codec import Malformed, decode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event
from launchmon_agent.model import STACKS_KEPT, RunModel
from launchmon_agent.samples import HISTORY

KEPT_SAMPLES: dict[str, int] = {
    **dict.fromkeys(("processes", "gpus", "host", "http", "heartbeat", "ras", "log"), HISTORY),
    "stacks": STACKS_KEPT,
}
"""Kind → how many of the newest a model can tell from older ones. Of the other kinds every event counts."""

_HEAD = re.compile(rb'\{"kind":"(?P<kind>[a-z-]+)","at":(?P<at>-?\d+(?:\.\d+)?)[,}]')
_LOG_FILE = re.compile(rb'"(?:generation|launch_offset)":\d+')
_READ_FROM_THE_LOG = frozenset({"mark", "progress", "error"})
"""Kinds whose time is that of a log line: they may be found long after it."""


class Recorded:
    """Positions count lines: ``model_at(n)`` is the model after the first ``n``. Times are the target's, in seconds."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        """Lines that are no events are passed over. Raises :class:`Refused` where none is one."""
        self._lines: list[bytes] = []
        self._kinds: list[str] = []
        self._times: list[float] = []  # when each was known; they never go back
        self._always: list[int] = []
        self._samples: dict[str, list[int]] = {kind: [] for kind in KEPT_SAMPLES}
        self._log_file: object = None
        self._sampled_at: float | None = None  # the newest sample of the processes, by the target's clock
        self._index(lines)
        if not self._lines:
            raise Refused(
                "this recording holds no events", "it is empty, damaged, or no recording of launchmon", "launchmon runs"
            )

    def __len__(self) -> int:
        return len(self._lines)

    def lines(self) -> list[bytes]:
        return list(self._lines)

    @property
    def begin(self) -> float:
        return self._times[0]

    @property
    def end(self) -> float:
        return self._times[-1]

    def time(self, position: int) -> float:
        """When the last of the first ``position`` lines was known; of none, the beginning."""
        return self._times[max(0, position - 1)]

    def position(self, time: float) -> int:
        """How many lines were known at this time."""
        return bisect_right(self._times, time)

    def event(self, place: int) -> Event | None:
        """The event of one line; None for one that is damaged."""
        with contextlib.suppress(Malformed):
            return decode(self._lines[place])
        return None

    def kind(self, place: int) -> str:
        return self._kinds[place]

    def lasting(self) -> list[int]:
        """Places of all lines but samples, in order: what happened."""
        return sorted([*self._always, *self._samples["stacks"]])

    def model_at(self, position: int) -> RunModel:
        """A new model, the same as one that took in all lines before ``position``.

        But for the curves of ranks and GPUs that are gone: nothing shows them.
        """
        wanted = self._always[: bisect_left(self._always, position)]
        for kind, places in self._samples.items():
            end = bisect_left(places, position)
            wanted += places[max(0, end - KEPT_SAMPLES[kind]) : end]
        model = RunModel()
        for place in sorted(set(wanted)):
            self._fold(model, place)
        return model

    def advance(self, model: RunModel, position: int, to: int) -> None:
        """Take the lines from ``position`` up to ``to`` into a model that has those before."""
        for place in range(position, to):
            self._fold(model, place)

    def _fold(self, model: RunModel, place: int) -> None:
        event = self.event(place)
        if event is not None:
            model.fold(event)

    # -------------------------------------------------------------------------------------------------------- indexing

    def _index(self, lines: Iterable[bytes]) -> None:
        known: float | None = None
        for line in lines:
            head = _head(line)
            if head is None:
                continue
            kind, at = head
            place = len(self._lines)
            observed = kind not in _READ_FROM_THE_LOG
            if observed and (known is None or at > known):
                if known is None:  # lines read from the log before anything was observed
                    self._times = [at] * place
                    self._always.append(place)  # a model tells when observing began
                known = at
            self._lines.append(line)
            self._kinds.append(kind)
            self._times.append(at if known is None else known)
            self._sort_in(kind, place, line, at)
        if known is None:
            self._times = [max(self._times)] * len(self._times) if self._times else []

    def _sort_in(self, kind: str, place: int, line: bytes, at: float) -> None:
        if kind not in self._samples:
            self._always.append(place)
            return
        if kind == "processes":
            if self._sampled_at is not None and self._sampled_at > at:  # a model tells a clock that was set from both
                insort(self._always, self._samples[kind][-1])
                self._always.append(place)
            self._sampled_at = at
        self._samples[kind].append(place)
        if kind == "log":
            file = _LOG_FILE.findall(line)
            if file != self._log_file:  # another file, or another launch in it: what came before is forgotten here
                self._log_file = file
                self._always.append(place)


def _head(line: bytes) -> tuple[str, float] | None:
    """Kind and time of an event, mostly without reading the rest of its line."""
    found = _HEAD.match(line)
    if found is not None:
        return found["kind"].decode("ascii"), float(found["at"])
    with contextlib.suppress(ValueError, RecursionError, OverflowError):
        body = json.loads(line)
        if isinstance(body, dict) and isinstance(body.get("kind"), str):
            at = body.get("at")
            if isinstance(at, (int, float)) and not isinstance(at, bool):
                return body["kind"], float(at)
    return None
