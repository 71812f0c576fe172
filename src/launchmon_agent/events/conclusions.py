"""What is concluded, done and said: verdicts, steps of actions, notices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from launchmon_agent.events.base import Event


@dataclass(frozen=True)
class Evidence:
    what: str
    value: str


@dataclass(frozen=True)
class RuledOut:
    kind: str
    because: str


@dataclass(frozen=True)
class Next:
    do: str  # relaunch | dump | wait | kill | run
    change: tuple[str, ...] = ()
    why: str = ""
    source: str = ""


@dataclass(frozen=True)
class Countdown:
    """A timeout that will end the wait by itself."""

    name: str
    ends_in_s: float  # from the time of the verdict
    effect: str = ""


@dataclass(frozen=True)
class Verdict(Event):
    """What the judge concludes."""

    kind: ClassVar[str] = "verdict"
    verdict: str = "unknown"
    confidence: str = "low"  # high | medium | low
    summary: str = ""
    blames: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    unknown: tuple[str, ...] = ()
    next: tuple[Next, ...] = ()
    clocks: tuple[Countdown, ...] = ()  # that run, the next to end first
    quiet_s: float | None = None  # for how long nothing has moved; null: something does, or it is not known


@dataclass(frozen=True)
class Action(Event):
    """One step of something a person asked for (a kill, a relaunch). Steps of one action share its ``id``."""

    kind: ClassVar[str] = "action"
    action: str = ""  # kill | relaunch
    id: str = ""
    step: str = ""  # TERM launcher | wait | KILL ranks | sweep | done | …
    state: str = ""  # doing | done | failed
    text: str = ""


@dataclass(frozen=True)
class Notice(Event):
    """Something a person should know about the watching itself: a missing capability, a lost file."""

    kind: ClassVar[str] = "notice"
    source: str = ""  # sample | gpu | log | http | ras | kernel | clock | keeper | recording | preflight | …
    text: str = ""
