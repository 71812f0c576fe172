"""Reads an answer of NCCL's RAS, in both of its forms. Pure.

Forms as NCCL writes them (``src/ras/client_support.cc``, 2.24 to 2.31, and NVIDIA's page "RAS" in the NCCL guide):

* JSON, from 2.28.7 after ``set format json``: every rank of every communicator, with the count of each collective.
  2.28.9 forgets a comma in ``missing_ranks``; one that is missing between two lines is put in.
* Text: a table of groups of like communicators, then ``Errors`` and ``Warnings``, in which single ranks are named only
  where they stand out. Counts are told only where they differ, and then as how many ranks have which: the ranks
  that are not named individually have the only count that names nobody. A communicator in no warning is not listed
  here: nothing is known of it but that its ranks agree.

A host is an address of the network that NCCL bootstrapped over, and a pid is what the process itself calls its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from launchmon_agent.events import CollectiveRank, Communicator, Ras

IsOurs = Callable[[str | None, int | None], "bool | None"]
"""(host, pid as the process sees it) → whether it belongs to the run; None: it cannot be told."""

_MISSING_COMMA = re.compile(r'(?<=["\d\]}el])([ \t]*\n\s*)(?=["{])')
_SUCCESS, _IN_PROGRESS = 0, 7
"""ncclSuccess and ncclInProgress of nccl.h."""


class Unreadable(ValueError):
    """The answer is in no form that is known. The message says in a few words why."""


def parse(text: str, at: float, address: str, is_ours: IsOurs) -> Ras:
    """Raises :class:`Unreadable`."""
    if text.lstrip().startswith("{"):
        return _from_json(text, at, address, is_ours)
    if "Communicators..." in text:
        return _from_text(text, at, address, is_ours)
    first = next(iter(text.strip().splitlines()), "")
    raise Unreadable(f"an answer that is no status: {first[:80]!r}" if first else "an empty answer")


# ----------------------------------------------------------------------------------------------------------------- JSON


def _from_json(text: str, at: float, address: str, is_ours: IsOurs) -> Ras:
    try:
        said = json.loads(text)
    except ValueError:
        try:
            said = json.loads(_MISSING_COMMA.sub(r",\1", text))
        except ValueError as error:
            raise Unreadable(f"no JSON: {error}") from None
    if not isinstance(said, dict) or not isinstance(said.get("communicators"), list):
        raise Unreadable("JSON without communicators")
    return Ras(
        at,
        address=address,
        nccl=_text(said.get("nccl_version")),
        form="json",
        answered=_text(said.get("timestamp")),
        timeouts=_whole(_object(said.get("ras")).get("timeouts_count")),
        communicators=tuple(_communicator(_object(one), is_ours) for one in said["communicators"]),
    )


def _communicator(said: dict[str, Any], is_ours: IsOurs) -> Communicator:
    present = [_rank(_object(one), is_ours) for one in _list(said.get("ranks"))]
    missing = [_missing(_object(one), is_ours) for one in _list(said.get("missing_ranks"))]
    ranks = tuple(sorted((*present, *missing), key=lambda rank: rank.rank))
    return Communicator(_hash(_text(said.get("hash"))), _whole(said.get("size")), ranks)


def _rank(said: dict[str, Any], is_ours: IsOurs) -> CollectiveRank:
    counts = {
        str(name): number
        for name, count in _object(said.get("collective_counts")).items()
        if (number := _whole(count)) is not None
    }
    return _placed(said, is_ours, _state(_object(said.get("status"))), counts)


def _missing(said: dict[str, Any], is_ours: IsOurs) -> CollectiveRank:
    """A rank that gave no data: its process is silent, is given up, or has left the communicator."""
    status = _object(said.get("status"))
    if status.get("considered_dead") is True:
        state = "dead"
    else:
        state = "no-communicator" if status.get("unresponsive") is False else "no-answer"
    return _placed(said, is_ours, state, {})


def _placed(said: dict[str, Any], is_ours: IsOurs, state: str, counts: dict[str, int]) -> CollectiveRank:
    host, pid = _text(said.get("host")), _whole(said.get("pid"))
    host = None if host == "unknown" else host
    pid = pid if pid is not None and pid > 0 else None
    return CollectiveRank(
        rank=_whole(said.get("rank")) or 0,
        host=host,
        pid=pid,
        ours=is_ours(host, pid),
        gpu=_whole(said.get("nvml_dev")),
        state=state,
        counts=counts,
    )


def _state(status: dict[str, Any]) -> str:
    """In NCCL's own order: an abort counts before a finalize, and both before what initialisation came to."""
    errors = [status.get(name) for name in ("init_state", "async_error")]
    if status.get("abort_flag") is True:
        return "abort"
    if any(isinstance(code, int) and code not in (_SUCCESS, _IN_PROGRESS) for code in errors):
        return "error"
    if status.get("finalize_called") is True or status.get("destroy_flag") is True:
        return "finalize"
    return "running" if status.get("init_state") == _SUCCESS else "init"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _hash(text: str | None) -> str:
    """``0x5bd3``, as JSON has it, like ``0000000000005bd3``, as the text has it."""
    return (text or "").removeprefix("0x").rjust(16, "0")


# ----------------------------------------------------------------------------------------------------------------- text

_GROUP = re.compile(r"\s*(?P<group>\d+)\s+\d+\s+\d+\s+\d+(?:-\d+)?\s+(?P<size>\d+)\s+\d+\s+[A-Z]+\s+[A-Z,]+\s*")
_HEADING = re.compile(r"#(?P<group>\d+)-\d+ \((?P<id>[0-9a-f]+)\) (?P<what>INCOMPLETE|ERROR|MISMATCH)\s*")
_DIFFERENT = re.compile(r"\s+Communicator ranks have different (?:(?P<collective>\w+) operation counts|status)\s*")
_MANY = re.compile(
    r"\s+(?P<ranks>\d+) ranks (?:have (?:launched up to operation (?P<count>\d+)|(?P<none>not launched any operations)"
    r"|status (?P<status>[A-Z]+))|reported (?P<error>.+?))\s*"
)
_ONE = re.compile(
    r"\s+Rank (?P<rank>\d+) (?:has (?:launched up to operation (?P<count>\d+)|(?P<none>not launched any operations)"
    r"|status (?P<status>[A-Z]+)) |reported (?P<error>.+?) )?-- "
    r"(?:GPU \d+(?: \(NVML (?P<nvml>\d+)\))? managed by process (?P<pid>\d+) on node (?P<host>\S+)|\[.*\])\s*"
)
_GPU = re.compile(r"-- GPU (\d+)")
_VERSION = re.compile(r"NCCL version (?P<version>\S+)")
_TIMEOUTS = re.compile(r"Encountered (?P<number>\d+) communication timeouts?")
_DEAD = re.compile(r"DEAD\n(?:  .*\n)+")
_PROCESS = re.compile(r"  Process (?P<pid>\d+) on node (?P<host>\S+) ")
_STATES = {
    "NOCOMM": "no-communicator",
    "INIT": "init",
    "RUNNING": "running",
    "FINALIZE": "finalize",
    "ABORT": "abort",
}


class _Named:
    """One communicator of the text, as its sections name its ranks."""

    def __init__(self, id_: str, size: int | None) -> None:
        self.id = id_
        self.size = size
        self.ranks: dict[int, dict[str, Any]] = {}
        self.counts: dict[str, dict[int, int]] = {}  # collective → rank → launches

    def finish(self, is_ours: IsOurs, dead: set[tuple[str, int]]) -> Communicator:
        numbers = sorted({*self.ranks, *(rank for counts in self.counts.values() for rank in counts)})
        return Communicator(self.id, self.size, tuple(self._rank(number, is_ours, dead) for number in numbers))

    def _rank(self, number: int, is_ours: IsOurs, dead: set[tuple[str, int]]) -> CollectiveRank:
        known = self.ranks.get(number, {})
        host, pid = known.get("host"), known.get("pid")
        state = "dead" if (host, pid) in dead else known.get("state")
        counts = {name: counts[number] for name, counts in self.counts.items() if number in counts}
        return CollectiveRank(number, host, pid, is_ours(host, pid), known.get("gpu"), state, counts)


def _from_text(text: str, at: float, address: str, is_ours: IsOurs) -> Ras:
    version, timeouts = _VERSION.search(text), _TIMEOUTS.search(text)
    dead = {(match["host"], int(match["pid"])) for part in _DEAD.findall(text) for match in _PROCESS.finditer(part)}
    found = tuple(named.finish(is_ours, dead) for named in _communicators(text))
    return Ras(
        at,
        address=address,
        nccl=version["version"] if version else None,
        form="text",
        timeouts=int(timeouts["number"]) if timeouts else 0,
        communicators=found,
    )


def _communicators(text: str) -> list[_Named]:
    sizes = {match["group"]: int(match["size"]) for match in map(_GROUP.fullmatch, text.splitlines()) if match}
    found: dict[str, _Named] = {}
    for heading, lines in _sections(text):
        named = found.setdefault(heading["id"], _Named(heading["id"], sizes.get(heading["group"])))
        for different, part in _parts(lines):
            _take(named, heading["what"], different, part)
    return list(found.values())


def _sections(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Each ``#0-0 (hash) MISMATCH`` with the lines below it."""
    heading: re.Match[str] | None = None
    lines: list[str] = []
    for line in (*text.splitlines(), ""):
        begins = _HEADING.fullmatch(line)
        ends = begins or (line and not line.startswith(" ")) or line == ""
        if heading is not None and ends and (lines or begins):
            yield heading, lines
            lines = []
        if begins:
            heading, lines = begins, []
        elif line and not line.startswith(" "):
            heading = None
        elif line:
            lines.append(line)


def _parts(lines: list[str]) -> Iterator[tuple[re.Match[str] | None, list[str]]]:
    """A section's lines, each time from where another difference begins."""
    different: re.Match[str] | None = None
    part: list[str] = []
    for line in lines:
        begins = _DIFFERENT.fullmatch(line)
        if begins:
            if part:
                yield different, part
            different, part = begins, []
        else:
            part.append(line)
    if part:
        yield different, part


def _take(named: _Named, what: str, different: re.Match[str] | None, lines: list[str]) -> None:
    """Each line tells what several ranks have, and then names them if they are few; or what a single one has."""
    collective = different["collective"] if different else None
    group: re.Match[str] | None = None
    unnamed: list[tuple[int, int]] = []  # (ranks, their count) of the groups that name nobody
    for line in lines:
        many, one = _MANY.fullmatch(line), _ONE.fullmatch(line)
        if many:
            group = many
            unnamed.append((int(many["ranks"]), _count(many)))
        elif one:
            rank = int(one["rank"])
            alone = any(one[name] for name in ("count", "none", "status", "error"))
            said = one if alone else group
            if not alone and unnamed and said is not None:
                unnamed = [each for each in unnamed if each != (int(said["ranks"]), _count(said))]
            known = named.ranks.setdefault(rank, {})
            known.update(_place(one, line))
            state = _said_state(said, what)
            if state is not None:
                known["state"] = state
            if collective and said is not None:
                named.counts.setdefault(collective, {})[rank] = _count(said)
    if collective and len(unnamed) == 1 and named.size is not None:
        counts = named.counts.setdefault(collective, {})
        rest = [rank for rank in range(named.size) if rank not in counts]
        if len(rest) == unnamed[0][0]:
            counts.update(dict.fromkeys(rest, unnamed[0][1]))


def _count(said: re.Match[str]) -> int:
    return int(said["count"]) if said["count"] else 0


def _said_state(said: re.Match[str] | None, what: str) -> str | None:
    if said is not None and said["status"]:
        return _STATES.get(said["status"])
    if said is not None and said["error"]:
        return "error"
    return "no-answer" if what == "INCOMPLETE" else None


def _place(one: re.Match[str], line: str) -> dict[str, Any]:
    gpu = one["nvml"] or (match[1] if (match := _GPU.search(line)) else None)
    if one["pid"] is None:
        return {}
    return {"host": one["host"], "pid": int(one["pid"]), "gpu": None if gpu is None else int(gpu)}
