"""The directory of one launched run, and the list of them all.

Layout, below ``$XDG_STATE_HOME/launchmon/runs`` (default ``~/.local/state``), directories 0700 and files 0600::

    20261129-175800-kimi-k2-5/      the run's id: UTC time of creation, and its name or model
        run.json                    what was started and how; written whole and renamed into place
        server.log                  the server's stdout and stderr
        events.jsonl                the recording (:mod:`launchmon_agent.runs.recording`)
        phases.json                 how long its phases took (:mod:`launchmon_agent.runs.history`)
        hook/                       the launch hook, and what it is asked for (:mod:`launchmon_agent.stacks.plant`)
        lock                        held by the one writer of the recording

Nothing here holds a lock or a descriptor; reading a directory that another version or a crash left behind never fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from launchmon_agent.codec import Malformed, from_json, to_json
from launchmon_agent.errors import Refused
from launchmon_agent.machine import boot_id, boot_time
from launchmon_agent.runs.outlets import Outlets
from launchmon_agent.runs.whereabouts import Machine, is_here, this_machine
from launchmon_agent.sglang.command import parse

_SLUG_LENGTH = 32
_ID = re.compile(r"^\d{8}-\d{6}-[a-z0-9][a-z0-9.-]*$")


@dataclass(frozen=True)
class ProcessId:
    """A pid with the start time that makes it name one process for ever."""

    pid: int
    start_time: float  # seconds since the epoch


@dataclass(frozen=True)
class ClockRead:
    """What a process took for the time at which the machine was started, and which start that was.

    Start times rest on it, and the kernel gives another one once somebody has set the clock.
    """

    boot: str
    boot_time: float  # seconds since the epoch


@dataclass(frozen=True)
class RunFile:
    """The content of ``run.json``.

    ``env`` holds the changes that a person asked for, with the values of secrets hidden (None: the variable was
    removed). ``argv`` is kept as it was given, since a relaunch needs it: use ``redact_argv`` before it leaves.
    """

    id: str
    argv: tuple[str, ...]
    created: float  # seconds since the epoch
    cwd: str | None = None
    env: dict[str, str | None] = field(default_factory=dict)
    interpreter: str | None = None
    name: str | None = None
    series: str | None = None  # id of the first attempt
    attempt: int = 1
    parent: str | None = None  # id of the attempt before
    change: tuple[str, ...] = ()  # against the attempt before, in words, secrets hidden
    preparations: tuple[str, ...] = ()  # what was set for this run, in words
    while_watched: bool = False  # it is ended when nobody looks any more (a demo)
    launched: bool = True  # False: somebody else started it; it was recorded when it was relaunched
    outlets: Outlets = field(default_factory=Outlets)  # where its output goes besides
    server: ProcessId | None = None
    keeper: ProcessId | None = None
    socket: str | None = None  # where the keeper answers
    machine: Machine | None = None  # where it was started; None: by a launchmon that did not say
    clock: ClockRead | None = None  # in the file alone: on what its times of processes rest


class RunDirectory:
    """One run's directory. Constructing it touches nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def id(self) -> str:
        return os.path.basename(self.path)

    @property
    def log(self) -> str:
        return os.path.join(self.path, "server.log")

    @property
    def events(self) -> str:
        return os.path.join(self.path, "events.jsonl")

    @property
    def lock(self) -> str:
        return os.path.join(self.path, "lock")

    def read(self) -> RunFile | None:
        """``run.json``, or None where there is none that can be understood."""
        try:
            with open(_open_for_reading(os.path.join(self.path, "run.json")), encoding="utf-8") as file:
                body = json.load(file)
            run: RunFile = from_json(RunFile, body)
        except (OSError, ValueError, RecursionError, Malformed):
            return None
        return _as_read_here(run)

    def write(self, run: RunFile) -> None:
        """Replaces ``run.json`` in one step. Raises OSError (a full disk) and leaves the old one then."""
        path = os.path.join(self.path, "run.json")
        scratch = f"{path}.{os.getpid()}.new"
        try:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(to_json(_as_told_here(run)), file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
            raise

    def update(self, **changes: object) -> RunFile:
        """Changes fields of ``run.json``. Raises OSError, and ValueError where there is nothing to change."""
        run = self.read()
        if run is None:
            raise ValueError(f"{self.path} holds no readable run.json")
        run = replace(run, **changes)  # type: ignore[arg-type]
        self.write(run)
        return run


def state_root(environ: dict[str, str] | os._Environ[str] | None = None) -> str:
    """Where runs live. The directory may not exist yet."""
    environ = os.environ if environ is None else environ
    home = environ.get("XDG_STATE_HOME") or ""
    if not os.path.isabs(home):  # the XDG specification: relative paths are to be ignored
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "launchmon", "runs")


def create(
    argv: tuple[str, ...],
    name: str | None = None,
    root: str | None = None,
    clock: Callable[[], float] = time.time,
    **details: object,
) -> RunDirectory:
    """A new run's directory with its ``run.json`` (``details``: further fields). Raises :class:`Refused`."""
    root = root or state_root()
    now = clock()
    base = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{slug(name or parse(argv).model or 'run')}"
    try:
        make_private(root)
        path = _make_unique(root, base)
        directory = RunDirectory(path)
        run = RunFile(id=directory.id, argv=argv, created=now, name=name, series=directory.id, machine=this_machine())
        directory.write(replace(run, **details))  # type: ignore[arg-type]
    except OSError as error:
        raise Refused(
            f"The run's directory could not be made below {root}",
            error.strerror or str(error),
            "set XDG_STATE_HOME to a directory that can be written, with space left",
        ) from error
    return directory


def find(run_id: str, root: str | None = None) -> RunDirectory | None:
    """The run of this id, or None. An unambiguous part of an id or a name is enough; the newest of a name wins.

    Runs of this machine come before those of others that share the directory: nodes of one run share its name too.
    """
    everything = sorted(runs(root), key=lambda item: elsewhere(item[1]) is not None)
    for directory, _ in everything:
        if directory.id == run_id:
            return directory
    for directory, run in everything:
        if run.name == run_id:
            return directory
    partly = [(directory, run) for directory, run in everything if run_id in directory.id]
    if len(partly) > 1:
        partly = [(directory, run) for directory, run in partly if elsewhere(run) is None]
    return partly[0][0] if len(partly) == 1 else None


def elsewhere(run: RunFile) -> str | None:
    """The host name of the other machine where the run is; None: it is on this one, as far as is known."""
    return None if run.machine is None or is_here(run.machine) else run.machine.hostname


def runs(root: str | None = None) -> Iterator[tuple[RunDirectory, RunFile]]:
    """All launched runs, newest first. What is no run (a stray file, a half-made directory) is passed over."""
    for path in run_directories(root or state_root()):
        directory = RunDirectory(path)
        run = directory.read()
        if run is not None:
            yield directory, replace(run, id=directory.id)


def run_directories(root: str) -> list[str]:
    """Paths below ``root`` that are named like runs, newest first. None is looked into."""
    try:
        names = [name for name in os.listdir(root) if _ID.match(name)]
    except OSError:
        return []
    return [os.path.join(root, name) for name in sorted(names, reverse=True)]


def slug(text: str) -> str:
    """A short piece of a file name: ``/models/Kimi-K2.5/`` becomes ``kimi-k2-5``."""
    last = text.rstrip("/").rsplit("/", 1)[-1].lower()
    words = re.sub(r"[^a-z0-9]+", "-", last)[:_SLUG_LENGTH].strip("-")
    return words or "run"


def _open_for_reading(path: str) -> int:
    """Raises OSError. Without waiting for somebody to write into what was made a FIFO."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _as_told_here(run: RunFile) -> RunFile:
    boot = boot_id()
    return run if boot is None else replace(run, clock=ClockRead(boot, boot_time()))


def _as_read_here(run: RunFile) -> RunFile:
    """With the start times of its processes as this process reads them, though the clock was set in between."""
    clock, run = run.clock, replace(run, clock=None)
    if clock is None or clock.boot != boot_id():
        return run
    moved = boot_time() - clock.boot_time

    def here(process: ProcessId | None) -> ProcessId | None:
        return None if process is None else replace(process, start_time=process.start_time + moved)

    return replace(run, server=here(run.server), keeper=here(run.keeper))


def make_private(path: str) -> None:
    """Makes a directory and its missing parents; those that are made are the owner's alone."""
    before = os.umask(0o077)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(before)
    status = os.stat(path)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
        os.chmod(path, 0o700)


def _make_unique(root: str, base: str) -> str:
    for number in range(1, 1000):
        path = os.path.join(root, base if number == 1 else f"{base}-{number}")
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, "a thousand runs of this second exist", base)
