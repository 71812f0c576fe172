"""The recording of a run: ``events.jsonl``, one event a line, appended by one writer and read by anyone.

A recording never grows without bound. At :data:`PART_SIZE` the file becomes a numbered part, which is compressed in
the background. Once all parts together pass the cap, the oldest lose most of their samples (one a minute of each kind
stays); what happened (marks, errors, exits, verdicts, actions) is kept for ever. In order of time a recording is::

    events-0001.thin.jsonl.gz  events-0002.jsonl.gz  events-0003.jsonl  events.jsonl

Each step ends in a rename, so a crash leaves either the old or the new file, and a reader takes one of each number.
A torn last line (crash, full disk) is passed over by readers and closed by the next writer.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, cast

from launchmon_agent.codec import Malformed, decode, encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Event, Verdict
from launchmon_agent.redaction import redacted
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.readable import DAMAGED, readable_lines

PART_SIZE = 16 << 20
CAP = 96 << 20
"""Bytes of all closed parts together, beyond which the oldest are thinned."""

SAMPLES = frozenset({"processes", "gpus", "host", "http", "heartbeat", "ras", "log", "progress"})
"""Kinds of events that describe a moment; the others say that something happened."""

THIN_S = 60.0
"""Seconds between the samples of one kind that a thinned part keeps."""

_VERDICT = encode(Verdict(at=0.0)).partition(b",")[0]
"""How a line with a verdict begins: its kind comes first."""

_SAMPLE = tuple(b'{"kind":"%s",' % kind.encode("ascii") for kind in sorted(SAMPLES))
"""How lines with samples begin."""

_PART = re.compile(r"^events-(?P<number>\d{4,})(?P<thin>\.thin)?\.jsonl(?P<gz>\.gz)?$")


class Recording:
    """The one writer of a run's recording. Writing never raises: a full disk must not harm the server.

    ``trouble`` is called with one sentence when writing begins to fail, and again only after it worked in between.
    Not for use from several threads at once.
    """

    def __init__(
        self,
        directory: RunDirectory,
        trouble: Callable[[str], None],
        part_size: int = PART_SIZE,
        cap: int = CAP,
    ) -> None:
        """Raises :class:`Refused` if another process records this run."""
        self._directory = directory
        self._trouble = trouble
        self._part_size = part_size
        self._cap = cap
        self._failing = False
        self._housekeeping: threading.Thread | None = None
        self._lock = _lock(directory, trouble)
        self._file = -1
        self._size = 0
        self._torn = False
        self._open()

    def append(self, *events: Event) -> bool:
        """Writes events in one go; False if they were lost."""
        data = b"".join(encode(event) for event in events)
        if self._file < 0 and not self._open():
            return False
        if self._torn:
            data = b"\n" + data
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._torn = self._torn or written > 0
            self._size += written
            self._failed(error)
            return False
        self._torn = self._failing = False
        self._size += written
        if self._size >= self._part_size:
            self._close_part()
        return True

    def close(self) -> None:
        """Ends writing, waits for the housekeeping, and lets another writer in."""
        if self._housekeeping is not None:
            self._housekeeping.join()
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def _open(self) -> bool:
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self._directory.events, flags, 0o600)
            self._size = os.fstat(self._file).st_size
            self._torn = self._size > 0 and os.pread(self._file, 1, self._size - 1) != b"\n"
        except OSError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            self._trouble(f"the recording cannot be written: {error.strerror or error}; the server is not affected")

    def _close_part(self) -> None:
        if self._housekeeping is not None and self._housekeeping.is_alive():
            return  # the file grows a little further instead
        numbers = [number for number, _ in _parts(self._directory)]
        part = os.path.join(self._directory.path, f"events-{max(numbers, default=0) + 1:04d}.jsonl")
        try:
            os.rename(self._directory.events, part)
        except OSError as error:
            self._failed(error)
            return
        os.close(self._file)
        self._file = -1
        self._open()
        self._housekeeping = threading.Thread(target=self._tidy, name="recording", daemon=True)
        self._housekeeping.start()

    def _tidy(self) -> None:
        """Compresses closed parts and thins the oldest. What fails stays as it is, readable, and stops no other."""
        for _, path in _parts(self._directory):
            if not path.endswith(".gz"):
                with contextlib.suppress(*DAMAGED):
                    _rewrite(path, path + ".gz", thin=False)
        parts = [path for _, path in _parts(self._directory)]
        sizes = {path: size for path in parts if (size := _size(path)) is not None}
        for path in parts[:-1]:
            if sum(sizes.values()) <= self._cap:
                break
            if not path.endswith(".thin.jsonl.gz"):
                thin = path.removesuffix(".jsonl.gz") + ".thin.jsonl.gz"
                with contextlib.suppress(*DAMAGED):
                    _rewrite(path, thin, thin=True)
                    sizes[path] = os.path.getsize(thin)


def read_events(directory: RunDirectory) -> Iterator[Event]:
    """The recording from its beginning, a line at a time. Lines that are no events are passed over."""
    for path in [*(path for _, path in _parts(directory)), directory.events]:
        # a part may be compressed or thinned just now, or damaged: what can be read is read
        with contextlib.suppress(*DAMAGED), _open_part(path) as file:
            yield from _events(file)


def shareable_lines(directory: RunDirectory) -> Iterator[bytes]:
    """The recording line by line, without secrets: older versions recorded the command as it was given.

    Samples are given as they are: they never held any, and to decode them takes longest. Lines that are no events are
    left out. Where a part is damaged a notice says what is missing. Raises :class:`Refused` when nothing can be read.
    """
    paths = [*(path for _, path in _parts(directory)), directory.events]
    for line in readable_lines((path, _lines(path)) for path in paths):
        if line.startswith(_SAMPLE) and line.endswith(b"\n"):
            yield line
        else:
            with contextlib.suppress(Malformed):
                yield encode(redacted(decode(line)))


def happenings(directory: RunDirectory) -> Iterator[Event]:
    """The recording without its samples, which are most of it and are not even decoded."""
    for path in [*(path for _, path in _parts(directory)), directory.events]:
        with contextlib.suppress(*DAMAGED), _open_part(path) as file:
            yield from _events(line for line in file if not line.startswith(_SAMPLE))


def last_verdict(directory: RunDirectory) -> Verdict | None:
    """The newest verdict. Parts are searched from the newest on, without decoding what is no verdict."""
    for path in [directory.events, *(path for _, path in reversed(_parts(directory)))]:
        newest = b""
        with contextlib.suppress(*DAMAGED), _open_part(path) as file:
            for line in file:
                if line.startswith(_VERDICT) and line.endswith(b"\n"):
                    newest = line
        with contextlib.suppress(Malformed):
            event = decode(newest)
            if isinstance(event, Verdict):
                return event
    return None


def samples_since(directory: RunDirectory, kind: str, since: float, most: int) -> list[Event]:
    """The newest samples of a kind after a time, oldest first, ``most`` at most. Only these are decoded."""
    begin = b'{"kind":"%s",' % kind.encode("ascii")
    found: list[Event] = []
    for path in [directory.events, *(path for _, path in reversed(_parts(directory)))]:
        lines: deque[bytes] = deque(maxlen=most - len(found))
        with contextlib.suppress(*DAMAGED), _open_part(path) as file:
            lines.extend(line for line in file if line.startswith(begin))
        here = list(_events(lines))
        newer = [event for event in here if event.at > since]
        found[:0] = newer
        if len(found) >= most or len(newer) < len(here):
            break
    return found


def _events(file: Iterable[bytes]) -> Iterator[Event]:
    for line in file:
        if line.endswith(b"\n"):
            with contextlib.suppress(Malformed):
                yield decode(line)


def _parts(directory: RunDirectory) -> list[tuple[int, str]]:
    """Closed parts in order, one path for each number: thinned before compressed before plain."""
    found: dict[int, str] = {}
    try:
        names = os.listdir(directory.path)
    except OSError:
        return []
    for name in sorted(names, key=lambda name: (".thin" in name, name.endswith(".gz"))):
        match = _PART.match(name)
        if match:
            found[int(match["number"])] = os.path.join(directory.path, name)
    return sorted(found.items())


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:
        return None


def _lines(path: str) -> Iterator[bytes]:
    with _open_part(path) as file:
        yield from file


def _open_part(path: str) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.endswith(".gz") else open(path, "rb")


def _rewrite(source: str, target: str, thin: bool) -> None:
    """Compresses a part into ``target``, then removes the source."""
    scratch = f"{target}.new"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with (
            open(descriptor, "wb") as raw,
            gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=5, mtime=0) as out,
            _open_part(source) as file,
        ):
            out.writelines(_thinned(file) if thin else file)
        os.rename(scratch, target)
        os.unlink(source)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)


def _thinned(file: IO[bytes]) -> Iterator[bytes]:
    kept_at: dict[str, float] = {}
    for line in file:
        try:
            event = decode(line)
        except Malformed:
            continue
        if event.kind in SAMPLES:
            if event.at - kept_at.get(event.kind, float("-inf")) < THIN_S:
                continue
            kept_at[event.kind] = event.at
        yield line


def _lock(directory: RunDirectory, trouble: Callable[[str], None]) -> int:
    """The descriptor that holds the lock, or -1 where the file system has none (then nothing is refused)."""
    descriptor = -1
    try:
        descriptor = os.open(directory.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES) and descriptor >= 0:
            raise Refused(
                f"Run {directory.id} is being recorded by another keeper",
                "each run has one keeper, which owns its recording",
                f"launchmon attach {directory.id}",
            ) from None
        trouble(f"the recording cannot be locked: {error.strerror or error}")
        return -1
    return descriptor
