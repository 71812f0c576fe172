"""What the log tells: marks, progress, errors, and its state as a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from launchmon_agent.events.base import LAUNCHER, Event


@dataclass(frozen=True)
class Mark(Event):
    """A log line that begins, ends or informs about a phase. ``at`` is the line's own time."""

    kind: ClassVar[str] = "mark"
    id: str = ""  # row of sglang/marks.table: "weights", "graph", …
    what: str = ""  # begin | end | info | skip
    phase: str | None = None  # its name, or None where the mark only informs
    rank: str = LAUNCHER
    offset: int = 0  # of the line in the log, bytes
    text: str = ""  # the message without its prefix, at most 300 characters
    values: dict[str, str] = field(default_factory=dict)  # named groups of the pattern: {"s": "12.3", "gb": "4.5"}


@dataclass(frozen=True)
class Progress(Event):
    """The newest refresh of a progress bar."""

    kind: ClassVar[str] = "progress"
    rank: str = LAUNCHER
    phase: str | None = None
    label: str = ""
    done: int = 0
    total: int = 0
    percent: float | None = None
    eta_s: float | None = None
    rate: str | None = None


@dataclass(frozen=True)
class LogError(Event):
    """The first line of an error in the log, with its last line once that is known."""

    kind: ClassVar[str] = "error"
    rank: str = LAUNCHER
    offset: int = 0
    id: str = ""  # row of sglang/errors.table
    severity: str = "error"  # fatal | error | consequence | warning
    text: str = ""  # at most 300 characters
    detail: str | None = None  # last line of a traceback: "RuntimeError: …"
    node: int | None = None


@dataclass(frozen=True)
class LastLine:
    rank: str
    at: float
    text: str  # at most 300 characters, control sequences made visible
    offset: int = 0


@dataclass(frozen=True)
class Log(Event):
    """The state of the log as a file. Sent when it changes, four times a second at most."""

    kind: ClassVar[str] = "log"
    size: int = 0
    lines: int | None = None  # of the part indexed so far
    indexed: int = 0  # bytes
    scanned: int = 0  # bytes searched for marks
    generation: int = 0  # raised when the file is rotated, truncated or replaced: offsets start again
    launch_offset: int = 0  # where the newest launch in this file begins
    grown_at: float | None = None  # when the last byte arrived
    last: tuple[LastLine, ...] = ()  # of each rank
    error: str | None = None
    file: str | None = None  # names the file, for one who was away: under another name, offsets are of another file
    node: int | None = None
