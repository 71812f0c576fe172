"""A py-spy that the client sent, because this machine has none: kept in a private directory, checked before each use.

The file is named ``py-spy-VERSION-MACHINE-SHA256``, so that one that was damaged, or written half, is seen to be. It is
the only file that an agent leaves on a machine besides the runs that it was asked to launch. Some file systems allow no
program on them (``noexec``), and some homes cannot be written, so there are several places.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import subprocess
import time
import zlib
from collections.abc import Iterator, Mapping

from launchmon_agent.errors import Refused

LARGEST = 64 * 1024 * 1024
"""Bytes of a program that is taken from a client."""

_NAME = re.compile(r"^py-spy-[\w.+]+-\w+-([0-9a-f]{64})$")
_START_S = 10.0
_BUSY_TRIES = 20
"""A child that another thread forks while the program is written holds the file open until its exec."""


def places(environ: Mapping[str, str] | None = None, shm: str = "/dev/shm", tmp: str = "/tmp") -> list[str]:  # noqa: S108 - see _private
    """Where a program may be kept, best first. None is made or looked at."""
    environ = os.environ if environ is None else environ
    home = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    own = f"launchmon-{os.geteuid()}"
    found = [os.path.join(home, "launchmon"), os.path.join(environ.get("XDG_RUNTIME_DIR", ""), "launchmon")]
    found += [os.path.join(folder, own) for folder in (shm, environ.get("TMPDIR", ""), tmp)]
    return [path for path in dict.fromkeys(found) if os.path.isabs(path)]


def kept(folders: list[str] | None = None) -> Iterator[str]:
    """Every program there that is whole, and that nobody else can have put there."""
    for folder in places() if folders is None else folders:
        if not _is_private(folder):
            continue
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(folder), reverse=True):
                path = os.path.join(folder, name)
                known = _NAME.match(name)
                if known is not None and _digest(path) == known[1]:
                    yield path


def keep(name: str, packed: bytes, folders: list[str] | None = None) -> str:
    """Unpack a program (zlib) and store it under ``name``; returns its path. Raises :class:`Refused`."""
    known = _NAME.match(name)
    if known is None:
        raise Refused(f"{name!r} is no name of a py-spy", "client and agent are of different versions")
    try:
        unpacking = zlib.decompressobj()
        program = unpacking.decompress(packed, LARGEST)
    except zlib.error as error:
        raise Refused("the py-spy that was sent is damaged", str(error), "d sends it again") from None
    if not unpacking.eof or hashlib.sha256(program).hexdigest() != known[1]:
        raise Refused("the py-spy that was sent is damaged", "its checksum is another", "d sends it again")
    problems = []
    for folder in places() if folders is None else folders:
        try:
            return _store(folder, name, program)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror or error}")
    raise Refused(
        "there is no place for py-spy on this machine",
        "; ".join(problems),
        "set XDG_CACHE_HOME there to a directory that can be written and may hold programs",
    )


def runs(program: str) -> bool:
    """Whether it can be run here: it is for this kind of machine, and no mount option or policy forbids it."""
    for _ in range(_BUSY_TRIES):
        try:
            done = subprocess.run(
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_START_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                return False
            time.sleep(0.05)
        else:
            return done.returncode == 0
    return False


def _store(folder: str, name: str, program: bytes) -> str:
    """Raises OSError where the folder is not private, cannot be written, or allows no programs."""
    _make_private(folder)
    allowed = os.statvfs(folder).f_flag
    if allowed & (os.ST_NOEXEC | os.ST_RDONLY):
        raise OSError("it is mounted noexec" if allowed & os.ST_NOEXEC else "it is mounted read-only")
    path = os.path.join(folder, name)
    part = f"{path}.{os.getpid()}"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700), "wb") as out:
            out.write(program)
        if not runs(part):
            raise OSError("py-spy does not run there")
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    for other in os.listdir(folder):
        if other != name and _NAME.match(other):  # of another version
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, other))
    return path


def _make_private(folder: str) -> None:
    before = os.umask(0o077)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    finally:
        os.umask(before)
    status = os.lstat(folder)
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
        os.chmod(folder, 0o700)
    if not _is_private(folder):
        raise OSError("it is not a private directory of this user")


def _is_private(folder: str) -> bool:
    """A true directory (no link) of ours that nobody else may enter: in ``/tmp`` anyone may have put one before."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _digest(path: str) -> str | None:
    try:
        with open(path, "rb") as program:
            return hashlib.sha256(program.read()).hexdigest()
    except OSError:
        return None
