"""Follows a log: what is new goes to the mark scanner and the line index, a bounded amount at each poll.

At a large log there is no waiting: windows of it can be had from the first moment, while scanning and indexing catch up
from the start, slice by slice.
"""

from __future__ import annotations

import time
from typing import Protocol

from launchmon_agent.events import Event, LastLine, Log
from launchmon_agent.log.index import LineIndex
from launchmon_agent.log.source import LogFile

SCAN_S = 0.04
INDEX_S = 0.1
"""Seconds of scanning and of indexing in one poll, after which the next poll goes on."""

INDEX_PART = 16 * 1024 * 1024
"""Bytes indexed between looks at the clock."""

LEAST_PIECE = 32 * 1024
MOST_PIECE = 1024 * 1024
"""Bytes fed to the scanner between looks at the clock: it reads the log of a launch closely, that of a serving run
hundreds of times as fast."""

TAIL = 64 * 1024
"""Bytes at the end of the log by which its time zone is learnt."""

TELL_S = 0.25
"""Least time between two Log events."""


class Scanner(Protocol):
    """What :class:`launchmon_agent.log.marks.MarkScanner` does."""

    @property
    def launch_offset(self) -> int:
        """Where the newest launch in the file begins, bytes."""

    def calibrate(self, tail: bytes, written_at: float) -> None:
        """Learn the time zone from the end of a log and the time it was written. Before the first bytes are fed."""

    def feed(self, offset: int, data: bytes, now: float | None) -> list[Event]:
        """Take the bytes that follow the ones before; ``now`` is None for bytes written before anybody watched."""

    def last_lines(self) -> tuple[LastLine, ...]: ...

    def reset(self) -> None:
        """Forget all: another file begins."""


class Follower:
    """Follows one :class:`LogFile`. Not for several threads at once."""

    def __init__(self, log: LogFile, scanner: Scanner) -> None:
        self.log = log
        self._scanner = scanner
        self._told: Log | None = None
        self._grown_at: float | None = None
        self._attached = False
        self._piece = LEAST_PIECE
        self.behind = True
        """There is more to do at once: poll again without waiting."""
        self.source_problem: str | None = None
        """Why nothing more will come to the log's file, where somebody else knows that."""
        self._begin()

    def poll(self, now: float) -> list[Event]:
        """Do one slice of work. Returns what was found, in file order, and the state of the log where it changed."""
        found: list[Event] = []
        if self.log.refresh(self._scanned, now):
            self.index.close()
            self._scanner.reset()
            self._begin()
            found.append(self._tell(now))
        if not self._attached:
            self._attach(now)
        if self._grown_at is not None and self._grown_at > now:
            self._grown_at = now  # the clock was set back: how long it is since is not known
        size = self.log.content.size()
        found += self._scan(size, now)
        self._build_index()
        # By the size of before: what was written during this poll may wait for the next.
        readable = self._scanned >= size or self.log.content.read_at(self._scanned, 1) != b""
        self.behind = readable and min(self._scanned, self.index.indexed) < size
        if self._told is None or (self._differs() and not 0 <= now - self._told.at < TELL_S):
            found.append(self._tell(now))
        return found

    @property
    def launch_offset(self) -> int:
        """Where the newest launch in the file begins, bytes."""
        return self._scanner.launch_offset

    def close(self) -> None:
        self.index.close()

    def _begin(self) -> None:
        """Start on the present content of the log."""
        content = self.log.content
        self.index = LineIndex.fastest(content)
        self._scanned = content.floor
        self._old_end = content.floor  # bytes before this were there when we came
        self._grown_at = None
        self._last: tuple[int, tuple[LastLine, ...]] | None = None

    def _attach(self, now: float) -> None:
        """The first poll: all that is there already is from an unknown time before."""
        self._attached = True
        content = self.log.content
        status = content.status()
        if status is not None and status.st_size > content.floor:
            self._old_end = status.st_size
            self._grown_at = min(now, status.st_mtime)
            tail = content.read_at(max(content.floor, self._old_end - TAIL), TAIL)
            self._scanner.calibrate(tail, self._grown_at)

    def _scan(self, size: int, now: float) -> list[Event]:
        found: list[Event] = []
        began = last = time.monotonic()
        while self._scanned < size and last - began < SCAN_S:
            old = self._scanned < self._old_end
            upto = min(self._scanned + self._piece, self._old_end if old else size, size)
            data = self.log.content.read_at(self._scanned, upto - self._scanned)
            if not data:
                break
            found += self._scanner.feed(self._scanned, data, None if old else now)
            self.index.extend(self._scanned, data)
            self._scanned += len(data)
            if not old:
                self._grown_at = now
            took, last = time.monotonic() - last, time.monotonic()
            if took > SCAN_S / 4:
                self._piece = max(LEAST_PIECE, self._piece // 2)
            elif took < SCAN_S / 16:
                self._piece = min(MOST_PIECE, self._piece * 2)
        return found

    def _build_index(self) -> None:
        began = time.monotonic()
        while self.index.step(INDEX_PART) and time.monotonic() - began < INDEX_S:
            pass

    def _state(self, now: float) -> Log:
        there = bool(self.log.content)
        return Log(
            now,
            size=self.log.content.size(),
            lines=self.index.lines if there else None,
            indexed=self.index.indexed,
            scanned=self._scanned,
            generation=self.log.generation,
            launch_offset=self._scanner.launch_offset,
            grown_at=self._grown_at,
            last=self._last_lines(),
            error=self.log.problem or self.source_problem,
            file=self.log.identity,
        )

    def _last_lines(self) -> tuple[LastLine, ...]:
        """Made anew only after more was scanned: making them is the dearest part of a poll that finds nothing."""
        if self._last is None or self._last[0] != self._scanned:
            self._last = (self._scanned, self._scanner.last_lines())
        return self._last[1]

    def _differs(self) -> bool:
        """From what was told, but for the time."""
        return self._told is None or self._state(self._told.at) != self._told

    def _tell(self, now: float) -> Log:
        self._told = self._state(now)
        return self._told
