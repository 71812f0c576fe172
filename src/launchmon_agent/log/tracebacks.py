"""Follows a traceback through the log to its last line. Pure.

SGLang logs a child's exception as one record: the prefix and ``Traceback (most recent call last):`` on the first line,
bare lines after it. The launcher's own tracebacks have no prefix at all, and torch puts ``[rank0]:`` before every line.
Python prints chained exceptions one after the other, the one that was raised last at the end: its line is the detail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from launchmon_agent.events import LogError
from launchmon_agent.sglang.table import cause_of

OPENING = b"Traceback (most recent call last)"
_CHAINED = (b"During handling of the above exception", b"The above exception was the direct cause")


@dataclass
class Traceback:
    """An open traceback. ``error`` is None for one that belongs to a benign line."""

    error: LogError | None
    number: int | None  # torch's rank, when each line carries it
    concluded: bool = False  # its exception line was seen
    blank: bool = False  # and then an empty line
    chained: bool = False  # and then the announcement of another exception

    def __post_init__(self) -> None:
        self.opened_as = "" if self.error is None else self.error.severity

    def goes_on(self, line: bytes) -> bool:
        """Whether this line without a prefix still belongs to the traceback."""
        if line.startswith(_CHAINED):
            self.chained = True
            return True
        if line.startswith(OPENING):
            return self.chained or not self.concluded
        if self.concluded and not self.chained:
            return not self.blank
        return True

    def take(self, line: bytes, shown: str) -> LogError | None:
        """Take a line of the traceback; the error with its detail, when this line is the exception's."""
        if line.startswith((b" ", b"\t", OPENING, *_CHAINED)) or not line:
            return None
        if self.concluded and not self.chained:
            return None  # a further line of the exception's message
        self.concluded, self.chained, self.blank = True, False, False
        if self.error is None:
            return None
        cause = cause_of(shown)
        severity = self.opened_as if cause is None or cause.severity is None else cause.severity
        self.error = replace(self.error, severity=severity, detail=shown)
        return self.error
