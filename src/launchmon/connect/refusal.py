"""Why no agent came up on a target, in words for a person: from an exit status and from what was printed. Pure."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from functools import cache

from launchmon.connect import Ending, bootstrap
from launchmon.connect.bootstrap import Looked
from launchmon.connect.target import Target
from launchmon_agent.errors import Refused
from launchmon_agent.judge.tables import sections, words

_NEWEST_UNFIT = (3, 10)
_CONTAINER_ID = re.compile(r"(docker|libpod|cri-containerd|crio)?[-/]([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_ENTER = {"docker": "docker exec -i", "libpod": "podman exec -i", "cri-containerd": "crictl exec -i"}
_ENTER["crio"] = _ENTER["cri-containerd"]
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class NotStarted(Exception):
    """No agent came up. ``ending``: of the command; None: it was given up after ``waited`` seconds. ``printed``: what
    came instead, stdout and stderr."""

    def __init__(self, ending: Ending | None, printed: str, waited: float = 0.0) -> None:
        super().__init__(printed)
        self.ending = ending
        self.printed = printed
        self.waited = waited


@dataclass(frozen=True)
class Complaint:
    """A row of ``complaints.table``."""

    id: str
    programs: tuple[str, ...]
    statuses: tuple[int, ...]
    said: re.Pattern[str]
    cause: str
    try_: str


@cache
def complaints() -> tuple[Complaint, ...]:
    found = sections("complaints.table", ("program", "said", "cause"), ("status", "try"), package="launchmon.connect")
    return tuple(
        Complaint(
            name,
            words(row["program"]),
            tuple(int(word) for word in words(row["status"])),
            re.compile(row["said"], re.IGNORECASE),
            row["cause"],
            row["try"],
        )
        for name, row in found
    )


def refusal(target: Target, failure: NotStarted) -> Refused:
    printed = _CONTROL.sub("", failure.printed.replace("\r", "\n"))
    last = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")
    where = _where(target)
    what = f"no agent could be started {where}"
    if failure.ending is None:
        silence = "nothing was printed either" if not last else f"the last that was printed: {last}"
        return Refused(
            f"no agent came up {where} within {failure.waited:.0f} s",
            f"the machine is very slow, or the command waits for something; {silence}",
            _by_hand(target),
        )
    status = failure.ending.status
    found = _no_python(target, status, printed)
    if found is not None:
        return found
    if target.command:
        known = _complaint(target, status, printed)
        if known is not None:
            row, program = known
            said = f"{what}: {last}" if last else f"{what} (status {status})"
            return Refused(said, row.cause, _filled(row.try_, target, program))
    how = "the link ended" if status is None else f"signal {-status}" if status < 0 else f"status {status}"
    return Refused(f"{what} ({how})", last, _by_hand(target))


def _where(target: Target) -> str:
    return f"through {target.spec!r}" if target.kind == "via" else f"on {target.label}"


def _by_hand(target: Target) -> str:
    """A command that fails in the same way before a person's eyes: ``sh`` gets what to run through its stdin."""
    if target.kind == "local":
        return "launchmon doctor"
    login = f"ssh {_ssh_words(target.spec)}" if target.kind == "ssh" else ""
    return " ".join(("echo id |", *filter(None, (login, target.command)), "sh"))


def _no_python(target: Target, status: int | None, printed: str) -> Refused | None:
    """What the script of :mod:`launchmon.connect.bootstrap` found."""
    looked = bootstrap.looked(printed)
    if status == bootstrap.ELSEWHERE:
        return _elsewhere(target, looked)
    if status == bootstrap.UNFIT_PYTHON and looked.unfit:
        return Refused(
            f"no Python that was found {_where(target)} is fit for the agent",
            "; ".join(f"{path} {_shortcoming(version)}" for path, version in looked.unfit[:3]),
            "uv python install 3.12    # there; needs no root, and is found in ~/.local by itself",
        )
    if status in (bootstrap.NO_PYTHON, bootstrap.UNFIT_PYTHON):
        return Refused(
            f"no Python was found {_where(target)}",
            "neither PATH, nor the usual places, nor a running SGLang server has one; the agent needs 3.10 or newer",
            "uv python install 3.12    # there; needs no root, and is found in ~/.local by itself",
        )
    return None


def _elsewhere(target: Target, looked: Looked) -> Refused:
    what = f"no Python was found {_where(target)} itself"
    if not looked.containers:
        pids = ", ".join(str(pid) for pid in looked.foreign)
        cause = f"the SGLang server there (pid {pids}) has one, but belongs to somebody else, whose program is not run"
        return Refused(what, cause, "log in as the user that the server belongs to")
    pid, cgroup = looked.containers[0]
    enter = f"nsenter -t {pid} -a"
    known = _CONTAINER_ID.search(cgroup)
    if known is not None and known[1] in (None, *_ENTER):
        enter = f"{_ENTER[known[1] or 'docker']} {known[2][:12]}"
    login = f"ssh {_ssh_words(target.spec)}" if target.kind == "ssh" else ""
    prefix = "".join(f"{part} " for part in (login, target.command) if part)
    more = f", one of {len(looked.containers)}" if len(looked.containers) > 1 else ""
    cause = f"the SGLang server there (pid {pid}{more}) runs in a container, and its Python too"
    return Refused(what, cause, f"--via {shlex.quote(prefix + enter)}")


def _shortcoming(version: str) -> str:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < _NEWEST_UNFIT:
        return f"is {version or 'of no known version'}, and 3.10 or newer is needed"
    return f"({version}) lacks asyncio, ctypes or zlib"


def _complaint(target: Target, status: int | None, printed: str) -> tuple[Complaint, str] | None:
    """The row that fits, and the program it is about: of several in a row (``ssh HOST docker exec …``) any may fail."""
    programs = [os.path.basename(word) for word in shlex.split(target.command)]
    for row in complaints():
        mentioned = [name for name in programs if name in row.programs]
        if not mentioned and row.programs != ("any",):
            continue
        if row.statuses and status not in row.statuses:
            continue
        if row.said.search(printed):
            return row, (mentioned or programs)[-1]
    return None


def _filled(text: str, target: Target, program: str) -> str:
    parts = shlex.split(target.command)
    plain = [re.sub(r"^-([a-z]*)t([a-z]*)$", r"-\1\2", word) for word in parts]
    plain = [word for word in plain if word not in ("-", "--tty")]
    return text.format(spec=target.command, plain=shlex.join(plain), host=_host(parts), program=program)


def _host(parts: list[str]) -> str:
    """Of an ssh command: the first word after it that is neither an option nor the value of one."""
    after = iter(parts[next((place for place, word in enumerate(parts) if os.path.basename(word) == "ssh"), 0) + 1 :])
    for word in after:
        if not word.startswith("-"):
            return word
        if re.fullmatch(r"-[a-zA-Z]*[BbcDEeFIiJLlmOoPpQRSWw]", word):
            next(after, None)
    return parts[-1]


def _ssh_words(spec: str) -> str:
    """``user@host:22`` as ssh takes it."""
    host, colon, port = spec.rpartition(":")
    return f"-p {port} {host}" if colon and port.isdecimal() and ":" not in host.strip("[]") else spec
