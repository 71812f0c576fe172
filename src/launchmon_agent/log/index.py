"""Which line is where, for a log of any size, in bounded memory.

Only the number of newlines before every :data:`SEGMENT` th byte is kept: eight bytes for each 64 MiB. What lies between
is counted when somebody asks for it, and the counts of the segments asked for last are kept by :data:`STRIDE`. The
index is built in steps and never looks at a byte twice: what was appended since is counted from the bytes that
the follower has read anyway.

Lines are numbered from 0. The number of a line is the count of newlines before it.
"""

from __future__ import annotations

import bisect
from array import array
from collections import OrderedDict

from launchmon_agent.log.content import PIECE, Content
from launchmon_agent.log.count import Counter, CountLost, PythonCounter, WcCounter, find_wc

SEGMENT = 64 * 1024 * 1024
STRIDE = 1024 * 1024
KEPT_SEGMENTS = 32
SMALL = 4 * 1024 * 1024
"""Up to here a child process costs more than it saves."""


class LineIndex:
    """The lines of one :class:`Content`, from its floor on. ``wc=None`` counts in Python only."""

    def __init__(self, content: Content, wc: str | None = None) -> None:
        self.content = content
        self.indexed = content.floor
        """Bytes before this offset are counted."""
        self.lines = 0
        """Newlines before :attr:`indexed`."""
        self._wc = wc
        self._before = array("Q", [0]) * (content.floor // SEGMENT + 1)  # newlines before the start of each segment
        self._fine: OrderedDict[int, array[int]] = OrderedDict()  # segment → newlines before each stride of it
        self._counter: Counter | None = None
        self._counted = self.indexed  # with what the counter has taken

    @classmethod
    def fastest(cls, content: Content) -> LineIndex:
        return cls(content, find_wc())

    def step(self, budget: int) -> bool:
        """Index up to about ``budget`` more bytes. True while the file has more. May be called from any one thread."""
        size = self.content.size()
        while budget > 0 and self._counted < size:
            end = min(self._segment_end(self._counted), size)
            upto = min(end, self._counted + budget)
            began = self._counted
            self._count(began, upto)
            if self._counted == began and self._counter is not None:
                return False  # the file ends earlier than it says, or cannot be read: try again when it changes
            budget -= max(0, self._counted - began)
            if self._counted >= end and self._counter is not None:
                self._take(self._counter)
        return self._counted < size

    def extend(self, offset: int, data: bytes) -> None:
        """Take bytes read by somebody else, if they are the ones that come next."""
        skip = self.indexed - offset
        if self._counter is not None or not 0 <= skip < len(data):
            return
        view = data[skip:] if skip else data
        while view:
            room = self._segment_end(self.indexed) - self.indexed
            part = view[:room]
            self._advance(self.indexed + len(part), part.count(b"\n"))
            view = view[room:]
        self._counted = self.indexed

    def line_at(self, offset: int) -> int | None:
        """The number of the line that holds ``offset``; None beyond what is indexed."""
        if not self.content.floor <= offset <= self.indexed:
            return None
        if self.indexed - offset < STRIDE:
            return self.lines - self._newlines(offset, self.indexed)
        segment = offset // SEGMENT
        fine = self._refined(segment)
        stride = (offset - segment * SEGMENT) // STRIDE
        start = max(self.content.floor, segment * SEGMENT + stride * STRIDE)
        return fine[stride] + self._newlines(start, offset)

    def offset_of(self, line: int) -> int | None:
        """Where the line of that number begins; None before the first and beyond what is indexed."""
        if line == 0:
            return self.content.floor
        if line < 0 or line > self.lines:
            return None
        # The line begins after newline number `line`: in the last segment that has fewer newlines before it.
        segment = bisect.bisect_left(self._before, line) - 1
        fine = self._refined(segment)
        stride = bisect.bisect_left(fine, line) - 1
        at = max(self.content.floor, segment * SEGMENT + stride * STRIDE)
        missing = line - fine[stride]
        while at < self.indexed:
            piece = self.content.read_at(at, min(PIECE, self.indexed - at))
            if not piece:
                return None  # truncated meanwhile
            here = piece.count(b"\n")
            if here >= missing:
                return at + _nth(piece, missing) + 1
            missing -= here
            at += len(piece)
        return None

    def close(self) -> None:
        if self._counter is not None:
            self._counter.close()
            self._counter = None

    # ------------------------------------------------------------------------------------------------------- building

    def _count(self, start: int, end: int) -> None:
        try:
            if self._counter is None:
                large = self.content.size() - start > SMALL
                self._counter = WcCounter(self._wc) if self._wc is not None and large else PythonCounter()
            self._counted = self._counter.add(self.content, start, end)
        except CountLost:
            self._give_up_on_wc()

    def _take(self, counter: Counter) -> None:
        """Book what the counter has counted."""
        self._counter = None
        try:
            self._advance(self._counted, counter.finish())
        except CountLost:
            self._give_up_on_wc()

    def _give_up_on_wc(self) -> None:
        self.close()
        self._wc = None
        self._counted = self.indexed

    def _advance(self, upto: int, newlines: int) -> None:
        self.indexed = upto
        self.lines += newlines
        if upto % SEGMENT == 0:
            while len(self._before) <= upto // SEGMENT:
                self._before.append(self.lines)

    @staticmethod
    def _segment_end(offset: int) -> int:
        return (offset // SEGMENT + 1) * SEGMENT

    # ------------------------------------------------------------------------------------------------------- refining

    def _refined(self, segment: int) -> array[int]:
        """Newlines before each stride of a segment, as far as it is indexed. Counts at most one segment."""
        fine = self._fine.get(segment)
        start = segment * SEGMENT
        strides = -(-(min(start + SEGMENT, self.indexed) - start) // STRIDE)
        if fine is None:
            fine = array("Q", [self._before[segment]])
            self._fine[segment] = fine
            if len(self._fine) > KEPT_SEGMENTS:
                self._fine.popitem(last=False)
        self._fine.move_to_end(segment)
        while len(fine) < strides:
            low = start + (len(fine) - 1) * STRIDE
            fine.append(fine[-1] + self._newlines(max(self.content.floor, low), low + STRIDE))
        return fine

    def _newlines(self, start: int, end: int) -> int:
        counter = PythonCounter()
        counter.add(self.content, start, end)
        return counter.finish()


def _nth(data: bytes, count: int) -> int:
    """The position of the ``count`` th newline, which ``data`` has."""
    at = -1
    for _ in range(count):
        at = data.find(b"\n", at + 1)
    return at
