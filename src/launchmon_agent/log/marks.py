"""Reads a log once, in order, and says what its lines mean: phase marks, progress, errors, last lines. Pure.

The same bytes give the same marks and errors, however they are cut into blocks. Text is hostile: a line is cut at
:data:`LINE_LIMIT`, and what a message quotes can at worst be taken for what it pretends to be.
"""

from __future__ import annotations

from launchmon_agent.events import LAUNCHER, Event, LastLine, LogError, Mark, Progress
from launchmon_agent.log.display import printable, text_of
from launchmon_agent.log.lanes import Lanes
from launchmon_agent.log.rows import Row, Rows
from launchmon_agent.log.skip import Skipper
from launchmon_agent.log.tracebacks import OPENING, Traceback
from launchmon_agent.sglang.prefix import Record, records, strip_control
from launchmon_agent.sglang.ranks import SINGLE
from launchmon_agent.sglang.secrets import redact_text
from launchmon_agent.sglang.server_args import shown_args
from launchmon_agent.sglang.stamps import LogClock
from launchmon_agent.sglang.table import LAUNCHER_LINE, RANK, BarRow, ErrorRow, MarkRow, bar_rows, error_rows, mark_rows

LINE_LIMIT = 64 * 1024
"""Bytes of a line that are read; the ``server_args=`` line of 0.5.23 has 19,000."""

_SHOWN = 300
_MATCHED = 4096
"""Bytes of a message that are matched: every mark and error begins its line."""

_CLOSE = 5
"""Lines from the end of a log within which its last stamp tells when it was written."""

_ENDING = frozenset({"fatal", "consequence"})
_SERVING_LITERALS = tuple(
    dict.fromkeys(
        literal
        for literal in (*(row.serving for row in mark_rows()), *(row.serving for row in error_rows()))
        if literal is not None
    )
)


class MarkScanner:
    """Feed it the bytes of a log in order. One scanner for one file; :meth:`reset` when the file is replaced."""

    def __init__(self, clock: LogClock | None = None) -> None:
        self.clock = LogClock() if clock is None else clock
        self._launch_rows = Rows(mark_rows(), error_rows())
        self._serving_rows = Rows(
            (row for row in mark_rows() if row.serving), (row for row in error_rows() if row.serving)
        )
        self._bars = Rows(bar_rows())
        self.reset()

    def reset(self) -> None:
        """Forget the log, but not its time zone: the next bytes are another file's."""
        self.launch_offset = 0  # where the newest launch begins, bytes
        self._expected: int | None = None  # offset of the byte that comes next
        self._partial = b""  # the beginning of a line whose end has not come
        self._partial_at = 0
        self._cut = False  # the partial line is longer than what is kept of it
        self._held_return = False  # a carriage return came last: its line feed may follow
        self._skipper = Skipper(_SERVING_LITERALS)
        self._lanes = Lanes()
        self._traceback: Traceback | None = None
        self._before_bare = b""  # the line without prefix before this one
        self._serving = False
        self._launched = False  # a mark was seen
        self._boundary: int | None = None  # behind the last line of a launch that has ended
        self._first_stamp: float | None = None  # of the lines since then
        self._line_end = 0
        self._now: float | None = None
        self._last: dict[str, tuple[int, float, bytes]] = {}
        self._progress: dict[tuple[str, str | None], Progress] = {}
        self._events: list[Event] = []
        self.clock.last = None

    def feed(self, offset: int, data: bytes, now: float | None = None) -> list[Event]:
        """What the lines completed by ``data`` say. ``data`` begins ``offset`` bytes into the log.

        ``now`` is the time at which the data was written, seconds since the epoch; None when that is not known, as for
        what was there before anyone looked. It tells the time zone, and the time of lines where the log has no stamps.
        A gap before ``offset`` loses the line it cuts.
        """
        if offset != self._expected:
            self._partial, self._cut, self._held_return, self._traceback = b"", False, False, None
            if self._expected is None:
                self._boundary = self.launch_offset = offset
        self._expected = offset + len(data)
        self._now = now
        if self._held_return:
            offset, data = offset - 1, b"\r" + data
        self._held_return = data.endswith(b"\r")
        end = len(data) - self._held_return
        start = self._finish_cut_line(offset, data, end) if self._cut else 0
        if start >= 0 and not self._cut:
            if self._partial:
                data, end = self._partial + data, end + len(self._partial)
                offset -= len(self._partial)
            self._read(offset, data, start, end)
        self._peek_at_bar()
        events, self._events = self._events, []
        events.extend(self._progress.values())
        self._progress.clear()
        return events

    def last_lines(self) -> tuple[LastLine, ...]:
        """The newest line of each rank and of the launcher, oldest first."""
        self._read_skipped()
        lines = sorted(self._last.items(), key=lambda item: item[1][0])
        return tuple(LastLine(rank, at, _shown(text), offset) for rank, (offset, at, text) in lines)

    def calibrate(self, tail: bytes, written_at: float) -> None:
        """Learn the log's time zone from its end and the time that was written, before the log is fed.

        The last line that has a stamp must be one of the last few: what has none may have been written much later.
        """
        for line in reversed(tail.splitlines()[-_CLOSE:]):
            found = [record.stamp for record in records(strip_control(line)) if record.stamp is not None]
            if found:
                self.clock.calibrate(found[-1], written_at)
                return

    # ----------------------------------------------------------------------------------------------------------- lines

    def _finish_cut_line(self, offset: int, data: bytes, end: int) -> int:
        """Where the line after an over-long one begins in ``data``; -1 while that line goes on."""
        ends = [at for at in (data.find(b"\n", 0, end), data.find(b"\r", 0, end)) if at >= 0]
        if not ends:
            return -1
        stop = min(ends)
        after = stop + (2 if data[stop : stop + 2] == b"\r\n" else 1)
        line, self._partial, self._cut = self._partial, b"", False
        self._line_end = offset + after
        self._line(line, self._partial_at, newline=data[after - 1 : after] == b"\n")
        return after

    def _read(self, offset: int, data: bytes, start: int, end: int) -> None:
        whole = max(data.rfind(b"\n", start, end), data.rfind(b"\r", start, end)) + 1
        self._skipper.begin()
        last_stamped = None
        while start < whole:
            if self._serving and self._traceback is None:
                stop = self._skipper.next_line(data, start, whole)
                if stop > start:
                    self._skipper.passed(data, start, stop, offset + start)
                    start = stop
                    continue
            feed_at = data.find(b"\n", start, whole)
            return_at = data.find(b"\r", start, feed_at if feed_at >= 0 else whole)
            stop = return_at if return_at >= 0 else feed_at
            after = feed_at + 1 if stop in (feed_at, feed_at - 1) else stop + 1
            self._line_end = offset + after
            line = data[start : min(stop, start + LINE_LIMIT)]
            last_stamped = self._line(line, offset + start, newline=data[after - 1 : after] == b"\n")
            start = after
        self._calibrate_live(last_stamped)
        self._partial, self._partial_at = data[start : min(end, start + LINE_LIMIT)], offset + start
        self._cut = end - start > LINE_LIMIT

    def _line(self, line: bytes, offset: int, *, newline: bool) -> bytes | None:
        """Take one line; its last stamp, if it has one."""
        if self._skipper.tail:
            self._read_skipped()
        line = strip_control(line)
        if not line.strip():
            if newline and self._traceback is not None:
                self._traceback.blank = self._traceback.concluded
            return None
        stamp = None
        for record in records(line):
            stamp = record.stamp or stamp
            self._record(record, offset + record.start)
        return stamp

    def _calibrate_live(self, stamp: bytes | None) -> None:
        """The last line of what was just written tells the zone, when it has a stamp and was read."""
        if self._now is not None and stamp is not None:
            self.clock.calibrate(stamp, self._now)

    def _read_skipped(self) -> None:
        """Note the last lines and the time of the part that was passed over."""
        offset, tail = self._skipper.take()
        for line in tail.splitlines(keepends=True):
            for record in records(strip_control(line.rstrip(b"\r\n"))):
                if record.text.strip():
                    self._note(self._rank(record, None), record, offset + record.start, self._time(record))
            offset += len(line)

    # --------------------------------------------------------------------------------------------------------- records

    def _record(self, record: Record, offset: int) -> None:
        at = self._time(record)
        bare = record.stamp is None and record.rank is None
        text = record.text[1:] if record.number is not None and record.text[:1] == b" " else record.text
        if self._traceback is not None and self._continues(record, text, offset, at, bare=bare):
            return
        message = text[:_MATCHED]
        if bare and b"%" in message and self._bar(message, at, offset):
            return
        found = (self._serving_rows if self._serving else self._launch_rows).find(message)
        row = None
        if found is not None:
            row, match = found
            if isinstance(row, MarkRow):
                self._mark(row, {key: value for key, value in match.groupdict().items() if value}, record, offset, at)
            elif isinstance(row, ErrorRow):
                self._error(row, record, message, offset, at)
        elif not self._launched and message.startswith(b"Decode batch"):
            self._serving = True  # the file begins in the middle of a serving run
        self._note(self._rank(record, row), record, offset, at)
        self._before_bare = message if bare else b""

    def _continues(self, record: Record, text: bytes, offset: int, at: float, *, bare: bool) -> bool:
        """Give the record to the open traceback; False when it is not part of it, which ends the traceback."""
        traceback = self._traceback
        if traceback is None or not bare or record.number != traceback.number or not traceback.goes_on(text):
            self._traceback = None
            return False
        rank = LAUNCHER if traceback.error is None else traceback.error.rank
        error = traceback.take(text[:_MATCHED], _shown(text))
        if error is not None:
            self._events.append(error)
        if traceback.error is not None and traceback.error.severity in _ENDING:
            self._boundary, self._first_stamp = self._line_end, None
        self._note(rank, record, offset, at)
        return True

    def _mark(self, row: MarkRow, groups: dict[str, bytes], record: Record, offset: int, at: float) -> None:
        values = {key: text_of(value, limit=_SHOWN)[0] for key, value in groups.items()}
        rank = self._rank(record, row)
        if row.id == "args":
            self._begin_launch(offset)
            args = shown_args(record.text.decode("utf-8", "replace"))
            values.update((name, printable(value)[:_SHOWN]) for name, value in args.items())
            if self._first_stamp is not None:
                values["first_line_at"] = f"{self._first_stamp:.3f}"
            self._boundary = None
        elif row.phase == "ready":
            self._serving = True
        elif row.id in ("stop", "stopped"):
            self._end_launch()
        self._launched = True
        self._lanes.mark(rank, row)
        self._events.append(Mark(at, row.id, row.what, row.phase, rank, offset, _shown(record.text), values))

    def _begin_launch(self, offset: int) -> None:
        self.launch_offset = offset if self._boundary is None else self._boundary
        self._lanes = Lanes()
        self._serving = False

    def _end_launch(self) -> None:
        self._serving = False
        self._boundary, self._first_stamp = self._line_end, None

    def _error(self, row: ErrorRow, record: Record, message: bytes, offset: int, at: float) -> None:
        error = None
        if row.severity != "benign":
            severity = self._severity(row)
            error = LogError(at, self._rank(record, row), offset, row.id, severity, _shown(message))
            self._events.append(error)
            if severity in _ENDING:
                self._end_launch()
        if OPENING in message:
            self._traceback = Traceback(error, record.number)

    def _severity(self, row: ErrorRow) -> str:
        if row.id != "traceback":
            return row.severity
        if self._before_bare.startswith(b"Exception ignored in"):
            return "warning"
        # A request, a thread or a serving process can fail without taking the run with it.
        return "error" if self._serving or self._before_bare.startswith(b"Exception in thread") else row.severity

    # ------------------------------------------------------------------------------------------------------------ bars

    def _bar(self, line: bytes, at: float, offset: int) -> bool:
        found = self._bars.find(line)
        if found is None:
            return False
        row, match = found
        if not isinstance(row, BarRow):
            return False
        rank, phase = self._lanes.of_bar(row.phase)
        groups = {key: value.decode("utf-8", "replace") for key, value in match.groupdict().items() if value}
        self._progress[rank, phase] = Progress(
            at,
            rank,
            phase,
            _shown(match.groupdict().get("desc") or b"").strip(),
            int(groups["n"]),
            int(groups["tot"]),
            float(groups["pct"]),
            _seconds(groups["eta"]),
            groups["rate"],
        )
        self._last[rank] = (offset, at, line)
        return True

    def _peek_at_bar(self) -> None:
        """A bar's newest refresh has no line end yet: tqdm begins each with the carriage return."""
        if not self._serving and not self._cut and b"%" in self._partial and self._partial.endswith(b"]"):
            record = records(strip_control(self._partial))[-1]
            if record.stamp is None:
                self._bar(record.text, self._time(record), self._partial_at)

    # ------------------------------------------------------------------------------------------------------------ facts

    def _time(self, record: Record) -> float:
        if record.stamp is not None:
            at = self.clock.read(record.stamp, self._now)
            if at is not None:
                if self._first_stamp is None:
                    self._first_stamp = at
                return at
        if self.clock.last is not None:
            return self.clock.last
        return 0.0 if self._now is None else self._now

    def _rank(self, record: Record, row: Row | None) -> str:
        """Whose line it is. ``row`` is what it matched."""
        who = None if row is None or isinstance(row, BarRow) else row.who
        if who == LAUNCHER_LINE:
            return LAUNCHER
        if record.rank is not None:
            return record.rank
        if record.number is not None:
            return self._lanes.numbered(record.number)
        if who == RANK:
            return SINGLE
        # The lines of a single rank look like the launcher's; uvicorn's and those without prefix are not the rank's.
        # After the end began only the launcher speaks.
        may_be_rank = self._lanes.single and self._boundary is None and record.stamp is not None
        return SINGLE if may_be_rank and not record.text.startswith((b"INFO: ", b"ERROR: ")) else LAUNCHER

    def _note(self, rank: str, record: Record, offset: int, at: float) -> None:
        self._last[rank] = (offset, at, record.text)


def _shown(text: bytes) -> str:
    # Hidden before it is cut: half a secret would no longer be known as one.
    return redact_text(text_of(text[:_MATCHED])[0])[:_SHOWN]


def _seconds(text: str) -> float | None:
    """``01:02:03`` or ``02:03`` as seconds; None for ``?``."""
    total = 0
    for part in text.split(":"):
        if not part.isdigit():
            return None
        total = total * 60 + int(part)
    return float(total)
