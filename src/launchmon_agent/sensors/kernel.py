"""Kernel messages about the run: Xid errors and other trouble of GPUs, out-of-memory kills, segmentation faults.

Read from ``/dev/kmsg``, which costs nothing while the kernel is silent. Where that is refused (``dmesg_restrict`` is 1
and we are not root; ``dmesg`` is then refused as well) the journal may still be readable, to members of its group.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from launchmon_agent.events import Kernel, Notice
from launchmon_agent.sensors.tables import rows

JOURNAL_S = 15.0
"""Between two runs of journalctl, which takes tens of milliseconds."""

_JOURNAL_LIMIT_S = 10.0
_AT_ONCE = 5000
"""Messages read in one go; the rest waits for the next."""

_SAME_KILL_S = 5.0
"""The kernel tells an out-of-memory kill on two lines, and either may be missing."""

_OURS_BY_NAME = re.compile(r"sglang::")
"""In a container our pids differ from the kernel's; the titles are the same."""

_LONGEST = 500
_OUTPUT_LIMIT = 4 * 1024 * 1024
_SHORT_UNIX = re.compile(r"(\d+\.\d+) \S+ kernel: (.*)")
_NO_JOURNAL = re.compile(r"No journal files|not seeing messages from other users|insufficient permissions")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


class Message(NamedTuple):
    at: float
    text: str


class Reader(Protocol):
    """A source of kernel messages. ``failure`` says, once it is known, why there will be none."""

    failure: str | None

    def read(self, now: float) -> Iterable[Message]: ...
    def close(self) -> None: ...


class KernelSensor:
    """Kernel messages about one run."""

    def __init__(self, since: float | None = None, *, readers: Sequence[Reader] | None = None) -> None:
        """``since``: also messages from then on, as far as the kernel remembers; None: only from now on.

        ``readers``: to try in turn; by default the kernel's own device, then the journal.
        """
        self._readers: list[Reader] = [Kmsg(since), Journal(since)] if readers is None else list(readers)
        self._since = since
        self._pids: set[int] = set()
        self._kills: dict[int, float] = {}
        self._reasons: list[str] = []  # why the readers before do not work, until told

    def poll(self, now: float, pids: Iterable[int]) -> list[Kernel | Notice]:
        """What is new. ``pids``: of the run's processes now; those of before are remembered, for they may be dead."""
        self._pids.update(pids)
        while self._readers:
            reader = self._readers[0]
            found = [event for message in reader.read(now) for event in self._event(message)]
            if reader.failure is None:
                return list(found)
            self._reasons.append(reader.failure)
            reader.close()
            del self._readers[0]
        if not self._reasons:
            return []
        reasons, self._reasons = "; ".join(self._reasons), []
        return [Notice(now, source="kernel", text=f"kernel messages (Xid, OOM kills) cannot be read: {reasons}")]

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _event(self, message: Message) -> Iterator[Kernel]:
        if self._since is not None and message.at < self._since:
            return
        found = classify(message.text)
        if found is None:
            return
        what, whose, pid, name = found
        if whose == "ours" and pid not in self._pids and not _OURS_BY_NAME.match(name or ""):
            return
        if what == "oom-kill" and pid is not None:
            before = self._kills.get(pid)
            self._kills[pid] = message.at
            if before is not None and abs(message.at - before) < _SAME_KILL_S:
                return
        yield Kernel(message.at, what=what, text=message.text[:_LONGEST], pid=pid)


class Kmsg:
    """``/dev/kmsg``: each read gives one record, ``priority,sequence,microseconds,flags;text`` (Documentation/ABI)."""

    def __init__(self, since: float | None = None, *, path: str = "/dev/kmsg") -> None:
        self.failure: str | None = None
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if since is None:
                os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self.failure = f"{path}: {error.strerror}"

    def read(self, now: float) -> Iterator[Message]:
        if self._descriptor is None:
            return
        booted = now - time.clock_gettime(time.CLOCK_MONOTONIC)
        for _ in range(_AT_ONCE):
            try:
                record = os.read(self._descriptor, 16 * 1024)
            except BrokenPipeError:
                continue  # the kernel has overwritten what we had not read; the next read goes on after it
            except BlockingIOError:
                return
            except OSError as error:
                self.failure = f"/dev/kmsg: {error.strerror}"
                return
            message = parse_record(record.decode("utf-8", "replace"), booted)
            if message is not None:
                yield message

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        # Whoever ends the watching cannot close it: a thread may be in the middle of a reading then.
        self.close()


def parse_record(record: str, booted: float) -> Message | None:
    """None for what is no kernel's own message: root may write into the same device, under another facility."""
    head, separator, rest = record.partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3 or not (fields[0].isdigit() and fields[2].isdigit()) or int(fields[0]) >= 8:
        return None
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), rest.split("\n", 1)[0])
    return Message(booted + int(fields[2]) / 1e6, text)


class Journal:
    """``journalctl -k``, run now and then; nothing waits for it."""

    def __init__(self, since: float | None = None, *, command: str = "journalctl") -> None:
        self.failure: str | None = None
        self._command = command
        self._newest = since  # time of the last message that was read
        self._started_at: float | None = None
        self._running: _Running | None = None

    def read(self, now: float) -> Iterable[Message]:
        if self._newest is None:
            self._newest = now
        if self._running is None:
            if self._started_at is None or not 0 <= now - self._started_at < JOURNAL_S:
                self._start(now, self._newest)
            return []
        if self._running.process.poll() is None:
            if self._started_at is not None and now - self._started_at > _JOURNAL_LIMIT_S:
                self.failure = f"{self._command} takes too long"
            return []
        finished, self._running = self._running, None
        output, trouble = finished.results()
        if finished.process.returncode != 0 or _NO_JOURNAL.search(trouble):
            self.failure = f"{self._command}: {trouble.strip().splitlines()[0] if trouble.strip() else 'it fails'}"
            return []
        messages = map(parse_journal, output.splitlines())
        found = [message for message in messages if message is not None and message.at > self._newest]
        self._newest = max([self._newest, *(message.at for message in found)])
        return found

    def _start(self, now: float, since: float) -> None:
        self._started_at = now
        try:
            self._running = _Running([self._command, "-k", "--no-pager", "-o", "short-unix", f"--since=@{since:.6f}"])
        except OSError as error:
            self.failure = f"{self._command}: {error.strerror}"

    def close(self) -> None:
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
            self._running.results()
            self._running = None


class _Running:
    """A command whose output goes to files that have no name, so that no pipe can fill."""

    def __init__(self, command: list[str]) -> None:
        """Raises OSError."""
        self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - results() closes them
        output, trouble = self._files
        env = {**os.environ, "LC_ALL": "C"}
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=trouble, env=env)
        except OSError:
            self._close()
            raise

    def results(self) -> tuple[str, str]:
        """What it has written to stdout and stderr, once."""
        for file in self._files:
            file.seek(0)
        output, trouble = (file.read(_OUTPUT_LIMIT).decode("utf-8", "replace") for file in self._files)
        self._close()
        return output, trouble

    def _close(self) -> None:
        for file in self._files:
            file.close()


def parse_journal(line: str) -> Message | None:
    """``1764439200.123456 host kernel: text``. None for anything else."""
    match = _SHORT_UNIX.match(line)
    return Message(float(match[1]), match[2]) if match else None


@functools.cache
def _table() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((what, whose, re.compile(expression)) for what, whose, expression in rows("kernel.table", 3))


def classify(text: str) -> tuple[str, str, int | None, str | None] | None:
    """(what, whose, pid, process name), or None for a message of no interest."""
    for what, whose, expression in _table():
        match = expression.search(text)
        if match:
            groups = match.groupdict()
            pid = groups.get("pid")
            return what, whose, int(pid) if pid else None, groups.get("name")
    return None
