"""py-spy: where it is, how it is asked for one process, and what it answers."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchmon_agent.events import Frame
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.secrets import HIDDEN, is_secret_name, redact_text
from launchmon_agent.stacks import cache
from launchmon_agent.stacks.model import ReadThread

NAME = "py-spy"
_LONGEST_LOCAL = 200
_REFUSED = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)
_CAUSE = re.compile(r"^\s*\d+: (.+)$", re.MULTILINE)


class Failed(Exception):
    """py-spy gave no stacks. The message is fit for a person.

    ``refused``: the kernel did not let it. ``retry``: another attempt may succeed. ``unusable``: this py-spy cannot run
    here at all.
    """

    def __init__(self, text: str, *, refused: bool = False, retry: bool = False, unusable: bool = False) -> None:
        super().__init__(text)
        self.refused = refused
        self.retry = retry
        self.unusable = unusable


@dataclass(frozen=True)
class Options:
    native: bool = False
    nonblocking: bool = False
    locals: bool = False

    def words(self) -> list[str]:
        """py-spy refuses ``--native`` together with ``--nonblocking``."""
        out = ["--nonblocking"] if self.nonblocking else ["--native"] if self.native else []
        return [*out, "--locals"] if self.locals else out


# ---------------------------------------------------------------------------------------------------------- where it is


def find(pids: Sequence[int], environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every py-spy that may serve, best first: beside our interpreter, beside those of ``pids``, on PATH, and the one
    that a client sent.

    SGLang requires py-spy from 0.5.3, so the environment of a newer server has one.
    """
    environ = os.environ if environ is None else environ
    folders = [os.path.dirname(sys.executable)]
    for pid in pids:
        folders += _beside(pid)
    folders += [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    seen = set()
    for folder in folders:
        path = os.path.join(folder, NAME)
        if path not in seen and os.path.isabs(path):
            seen.add(path)
            if is_trusted(path):
                yield path
    yield from cache.kept(cache.places(environ))


def _beside(pid: int) -> Iterator[str]:
    """The directories of programs of a process's environment, as we can reach them (it may be in a container)."""
    found: list[str] = []
    argv = proc.cmdline(pid)
    if argv and os.path.isabs(argv[0]):
        found.append(os.path.dirname(argv[0]))  # of a virtual environment, whose link /proc/PID/exe looks through
    venv = (proc.environ(pid) or {}).get("VIRTUAL_ENV")
    if venv and os.path.isabs(venv):
        found.append(os.path.join(venv, "bin"))
    try:
        found.append(os.path.dirname(os.readlink(f"{proc.PROC}/{pid}/exe")))
    except OSError:
        pass
    elsewhere = proc.namespace(pid, "mnt") not in (None, proc.namespace("self", "mnt"))
    root = f"{proc.PROC}/{pid}/root" if elsewhere else ""
    return (root + folder for folder in dict.fromkeys(found))


def is_trusted(path: str) -> bool:
    """Whether a program may be run with our rights: it is ours or root's, and not everybody may write to it.

    Root, looking at the server of somebody else, must not run a program that this person could have put there.
    """
    try:
        status = os.stat(path)
    except OSError:
        return False
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o002


# ------------------------------------------------------------------------------------------------------------- the call


def dump(program: str, pid: int, options: Options, seconds: float) -> list[ReadThread]:
    """The threads of one process. Raises :class:`Failed`; never takes longer than ``seconds``, and leaves no child."""
    command = [program, "dump", "--json", "--pid", str(pid), *options.words()]
    environ = {**os.environ, "LC_ALL": "C", "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, env=environ, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"py-spy did not answer within {seconds:.0f} s and was ended") from None
    except OSError as error:
        raise Failed(_cannot_run(program, error), unusable=True) from None
    if done.returncode < 0:
        raise Failed(f"py-spy was ended by signal {-done.returncode}", retry=True)
    complaint = done.stderr.decode("utf-8", "replace")
    if done.returncode:
        raise Failed(f"py-spy: {_reason(complaint)}", refused=bool(_REFUSED.search(complaint)), retry=True)
    try:
        return parse(done.stdout, pid)
    except ValueError as error:
        raise Failed(f"py-spy gave no stacks that can be read: {error}", retry=True) from None


def _cannot_run(program: str, error: OSError) -> str:
    if error.errno == errno.ENOEXEC:
        return f"{program} is not for this kind of machine ({os.uname().machine})"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{program} may not be run: its file system is mounted noexec, or a policy forbids it"
    return f"{program} cannot be run: {error.strerror or error}"


def _reason(complaint: str) -> str:
    """The words that say most: the last cause that py-spy lists, else its first line."""
    causes = _CAUSE.findall(complaint.partition("Stack backtrace")[0])
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    first = lines[0].removeprefix("Error: ") if lines else "it failed and said nothing"
    return f"{first} ({causes[-1]})" if causes and causes[-1] not in first else first


def parse(data: bytes, pid: int) -> list[ReadThread]:
    """The answer to ``dump --json``: main thread first. Raises ValueError for what is no such answer."""
    body = json.loads(data)
    if not isinstance(body, list) or not all(isinstance(item, dict) for item in body):
        raise ValueError("not a list of threads")
    try:
        threads = [_thread(item, pid) for item in body]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a thread without {error}") from None
    return sorted(threads, key=lambda thread: (not thread.main, thread.os_id or 0))


def _thread(item: dict[str, Any], pid: int) -> ReadThread:
    name, os_id = item.get("thread_name"), item.get("os_thread_id")
    return ReadThread(
        frames=tuple(map(_frame, item["frames"])),
        name=name,
        os_id=os_id,
        main=os_id == pid or name == "MainThread",  # the id is the server's own where it has its own pid namespace
        active=item.get("active"),
        owns_gil=item.get("owns_gil"),
    )


def _frame(item: dict[str, Any]) -> Frame:
    return Frame(
        function=str(item["name"]),
        file=str(item.get("filename") or ""),
        line=item.get("line") or None,
        native=item.get("module") is not None,
        locals={str(local["name"]): _local(local) for local in item.get("locals") or ()},
    )


def _local(local: dict[str, Any]) -> str:
    if is_secret_name(str(local["name"])):
        return HIDDEN
    text = redact_text(str(local.get("repr") or "?"))
    return text if len(text) <= _LONGEST_LOCAL else text[:_LONGEST_LOCAL] + "…"
