"""The timeouts that will end a wait by themselves, as countdowns. Pure; the facts are in ``clocks.table``.

Which of them runs follows from the phases, from errors in the log, and, for waits inside a collective, from the stack
of those who wait: SGLang's own channels (PyNccl, custom all-reduce, ZeroMQ) have no timeout at all, torch's have one,
and Gloo's is not NCCL's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launchmon_agent.judge.tables import TableError, lines, sections, words
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.versions import Versions

_REQUIRED = ("name", "starts", "default", "versions", "message", "effect", "source")
_OPTIONAL = ("until", "frames", "unless", "adds", "until_at", "flag", "env", "zero", "device")
STARTS = ("phase", "first-done", "stack", "request", "error", "unseen")


@dataclass(frozen=True)
class Clock:
    """One countdown. Times are seconds from now; ``latest_s`` differs where the timeout is only looked at at times."""

    id: str
    name: str
    ends_in_s: float
    latest_s: float
    effect: str


@dataclass(frozen=True)
class Wait:
    """A wait of the ranks, as their stacks show it."""

    functions: tuple[str, ...]  # innermost first, bare or qualified
    since: float


@dataclass(frozen=True)
class ClockRow:
    """A section of the table."""

    id: str
    name: str
    starts: str  # one of STARTS
    where: str  # phase or error
    until: tuple[str, str] | None  # mark: (id, what)
    chains: tuple[tuple[str, ...], ...]
    unless: tuple[str, ...]
    defaults: tuple[tuple[float | None, Versions], ...]
    adds_s: float
    until_at: float
    flag: str
    env: str
    zero: str  # "no wait": 0 in ``env`` means just that
    device: str
    versions: Versions
    message: str
    effect: str
    source: str

    def seconds(self, args: Mapping[str, str], variables: Mapping[str, str], version: str | None) -> float | None:
        """What it is set to. ``args``: flag → value. None: it is off. Of a release that is not known, as the newest has
        it."""
        for given in (args.get(self.flag, ""), variables.get(self.env, "")):
            value = _number(given)
            if value is not None and (value > 0 or self.zero):
                return max(0.0, value)
        found = [default for default, held in self.defaults if held.holds(version) is not False]
        return found[-1] if found else None


def clocks(
    model: RunModel, now: float, *, wait: Wait | None = None, work_since: float | None = None
) -> tuple[Clock, ...]:
    """The clocks that run at ``now``, the next to end first. One that is overdue has evidently been stopped: left out.

    ``wait``: of the ranks, where their stacks were read. ``work_since``: a request is being worked on and nothing has
    come of it since then.
    """
    version = None if model.run is None else model.run.engine_version
    variables = {} if model.run is None else model.run.variables
    args = _args(model)
    found = []
    by_stack = _by_stack(model, wait)
    for row in rows():
        if row.versions.holds(version) is False or not _fits_device(row, model):
            continue
        began = _began(row, model, by_stack, wait, work_since)
        seconds = row.seconds(args, variables, version)
        if began is None or seconds is None:
            continue
        ends, latest = began + seconds + row.adds_s, began + seconds * row.until_at + row.adds_s
        if latest < now:
            continue
        found.append(Clock(row.id, row.name, max(0.0, ends - now), latest - now, row.effect))
    return tuple(sorted(found, key=lambda clock: (clock.ends_in_s, clock.name)))


def clocks_of_errors() -> frozenset[str]:
    """Ids of those that begin with an error in the log: a server that has failed may linger until they end it."""
    return frozenset(row.id for row in rows() if row.starts == "error")


def clock_variables() -> frozenset[str]:
    """Names of the environment variables that change a clock."""
    return frozenset(row.env for row in rows() if row.env)


# ------------------------------------------------------------------------------------------------------------- triggers


def _began(
    row: ClockRow,
    model: RunModel,
    by_stack: ClockRow | None,
    wait: Wait | None,
    work_since: float | None,
) -> float | None:
    """When the clock began to run; None: it does not run."""
    if row.until is not None and any(mark.what == row.until[1] for mark in model.marks(row.until[0])):
        return None
    match row.starts:
        case "phase":
            elsewhere = row.chains and wait is not None and by_stack is not row
            return None if elsewhere else _phase_began(row.where, model)
        case "first-done":
            return _first_done(row.where, model)
        case "stack":
            return wait.since if wait is not None and by_stack is row else None
        case "request":
            return work_since
        case "error":
            return max((error.at for error in model.errors if error.id == row.where), default=None)
    return None


def _phase_began(phase: str, model: RunModel) -> float | None:
    spans = [span for span in model.phases.spans() if span.phase == phase and not span.failed]
    if all(span.end is not None for span in spans):
        return None
    return min(span.begin for span in spans)


def _first_done(phase: str, model: RunModel) -> float | None:
    """The end of the first rank, while another one is in the phase still. A draft model's loading is one of its own."""
    spans = [span for span in model.phases.spans() if span.phase == phase]
    found = None
    for kind in {span.model for span in spans}:
        ends = [span.end for span in spans if span.model == kind and not span.failed]
        done = [end for end in ends if end is not None]
        if done and len(done) < len(ends):
            found = min(done)
    return found


def _by_stack(model: RunModel, wait: Wait | None) -> ClockRow | None:
    """The clock of the wait that the stack shows."""
    if wait is None:
        return None
    functions = tuple(name.rpartition(".")[2] for name in wait.functions)
    everything = {*functions, *(part for name in wait.functions for part in name.split("."))}
    for row in rows():
        allowed = _fits_device(row, model) and not everything & set(row.unless)
        if allowed and any(is_within(chain, functions) for chain in row.chains):
            return row
    return None


def is_within(chain: Sequence[str], functions: Sequence[str]) -> bool:
    """The chain's functions in this order, with any others between."""
    rest = iter(functions)
    return all(any(name == function for function in rest) for name in chain)


def _fits_device(row: ClockRow, model: RunModel) -> bool:
    device = _args_mark(model).get("device", "")
    return not row.device or (row.device == "cpu") == (device == "cpu")


def _args(model: RunModel) -> dict[str, str]:
    """Flag → value: from the command line, and, where it was printed, what SGLang made of it."""
    argv = () if model.run is None else model.run.argv
    given = {}
    for place, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            given[flag] = value if equals else argv[place + 1] if place + 1 < len(argv) else ""
    resolved = {f"--{name.replace('_', '-')}": value for name, value in _args_mark(model).items()}
    return {**given, **resolved}


def _args_mark(model: RunModel) -> Mapping[str, str]:
    marks = model.marks("args")
    return marks[-1].values if marks else {}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# ---------------------------------------------------------------------------------------------------------------- table


@functools.cache
def rows() -> tuple[ClockRow, ...]:
    """Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    return tuple(_row(id_, fields) for id_, fields in sections("clocks.table", _REQUIRED, _OPTIONAL))


def _row(id_: str, fields: Mapping[str, str]) -> ClockRow:
    starts, _, where = fields["starts"].partition(" ")
    if starts not in STARTS or bool(where) != (starts in ("phase", "first-done", "error")):
        raise TableError(f"[{id_}]: starts: {fields['starts']}")
    if fields["zero"] not in ("", "no wait"):
        raise TableError(f"[{id_}]: zero: {fields['zero']}")
    until, _, what = fields["until"].partition(" ")
    try:
        return ClockRow(
            id=id_,
            name=fields["name"],
            starts=starts,
            where=where,
            until=(until, what) if until else None,
            chains=tuple(tuple(chain.split(" < ")) for chain in lines(fields["frames"])),
            unless=words(fields["unless"]),
            defaults=tuple(_default(line) for line in lines(fields["default"])),
            adds_s=float(fields["adds"] or 0),
            until_at=float(fields["until_at"] or 1),
            flag=fields["flag"],
            env=fields["env"],
            zero=fields["zero"],
            device=fields["device"],
            versions=Versions.parse(fields["versions"]),
            message=fields["message"],
            effect=fields["effect"],
            source=fields["source"],
        )
    except ValueError as error:
        raise TableError(f"[{id_}]: {error}") from None


def _default(line: str) -> tuple[float | None, Versions]:
    seconds, _, versions = line.partition("|")
    return None if seconds.strip() == "-" else float(seconds), Versions.parse(versions.strip() or "all")
