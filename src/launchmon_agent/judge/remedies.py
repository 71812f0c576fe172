"""What to change next, by the kind of failure and its circumstances. Pure; the facts are in ``remedies.table``.

A remedy is offered only where it changes something: a flag that is set already is not added, one that is not set is
not taken out, and none is named that the installed SGLang does not have.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launchmon_agent.events import Next
from launchmon_agent.judge.clocks import is_within
from launchmon_agent.judge.tables import TableError, lines, sections, words
from launchmon_agent.judge.topology import nvlink
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.command import parse
from launchmon_agent.sglang.table import cause_of
from launchmon_agent.sglang.versions import Versions

MOST = 6
"""Remedies that are offered at most: a person tries one after the other."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
DOES = ("relaunch", "run", "dump", "wait", "kill")
CONDITIONS = ("pcie", "several-gpus", "several-nodes", "lock", "proxy", "jit-deepgemm", "no-stacks")

Supports = Callable[[str], "bool | None"]
"""Flag → whether the installed SGLang has it; None: not known."""


@dataclass(frozen=True)
class Context:
    """The circumstances. What is not known stays at its default."""

    phase: str = ""
    functions: tuple[tuple[str, ...], ...] = ()  # of each waiting stack, innermost first, bare or qualified
    errors: frozenset[str] = frozenset()  # rows of errors.table and causes.table
    text: str = ""  # first failure: its line and its last line
    version: str | None = None
    argv: tuple[str, ...] = ()
    fraction: float | None = None  # --mem-fraction-static, as given or as SGLang resolved it
    variables: Mapping[str, str] = field(default_factory=dict)  # of the server's environment
    ranks_here: int = 1
    nnodes: int = 1
    nvlink: bool | None = None
    lock: str | None = None  # the file that is waited for
    deepgemm: bool = False  # its compile is spoken of


@dataclass(frozen=True)
class RemedyRow:
    """A section of the table."""

    id: str
    kinds: frozenset[str]
    order: int
    phases: frozenset[str]
    chains: tuple[tuple[str, ...], ...]
    errors: frozenset[str]
    text: re.Pattern[str] | None
    when: tuple[str, ...]
    do: str
    change: tuple[str, ...]
    why: str
    source: str
    versions: Versions


def remedies(kind: str, context: Context, supports: Supports = lambda _flag: None) -> tuple[Next, ...]:
    """At most :data:`MOST` steps for a verdict of this kind, the best first; no change is offered twice."""
    found: list[Next] = []
    offered: set[tuple[str, ...]] = set()
    for row in sorted(rows(), key=lambda row: row.order):
        if not _fits(row, kind, context):
            continue
        change = _change(row, context, supports)
        if change is None or change in offered or (change == () and row.change):
            continue
        if change or row.do not in {step.do for step in found if not step.change}:
            offered.add(change)
            found.append(Next(row.do, change, row.why, row.source))
    return tuple(found[:MOST])


def context_of(
    model: RunModel,
    *,
    functions: Iterable[Sequence[str]] = (),
    lock: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> Context:
    """The circumstances as far as a model tells them. ``variables``: more of the environment than the run event has."""
    run = model.run
    failure = model.first_failure
    cause = cause_of(failure.detail) if failure is not None and failure.detail else None
    errors = set() if failure is None else {failure.id}
    argv = () if run is None else run.argv
    marks = model.marks("args")
    resolved = marks[-1].values if marks else {}
    return Context(
        phase=model.phases.run_phase(),
        functions=tuple(tuple(stack) for stack in functions),
        errors=frozenset(errors if cause is None else {*errors, cause.id}),
        text="" if failure is None else f"{failure.text}\n{failure.detail or ''}",
        version=None if run is None else run.engine_version,
        argv=argv,
        fraction=_number(resolved.get("mem_fraction_static") or _flags(argv).get("--mem-fraction-static")),
        variables={**({} if run is None else run.variables), **(variables or {})},
        ranks_here=1 if run is None else run.ranks_here,
        nnodes=1 if run is None else run.nnodes,
        nvlink=nvlink(model.gpus),
        lock=lock,
        deepgemm=any("DeepGEMM" in mark.text for mark in model.marks("jit")),
    )


# -------------------------------------------------------------------------------------------------------- circumstances


def _fits(row: RemedyRow, kind: str, context: Context) -> bool:
    return (
        kind in row.kinds
        and row.versions.holds(context.version) is not False
        and (not row.phases or context.phase in row.phases)
        and (not row.chains or _in_a_stack(row.chains, context.functions))
        and (not row.errors or bool(row.errors & context.errors))
        and (row.text is None or row.text.search(context.text) is not None)
        and all(_holds(condition, context) for condition in row.when)
    )


def _in_a_stack(chains: Sequence[Sequence[str]], stacks: Sequence[Sequence[str]]) -> bool:
    bare = [[name.rpartition(".")[2] for name in stack] for stack in stacks]
    return any(is_within(chain, stack) for stack in bare for chain in chains)


def _holds(condition: str, context: Context) -> bool:
    match condition:
        case "pcie":
            return context.nvlink is not True
        case "several-gpus":
            return context.ranks_here > 1
        case "several-nodes":
            return context.nnodes > 1
        case "lock":
            return context.lock is not None
        case "proxy":
            return any(context.variables.get(name) for name in PROXIES)
        case "jit-deepgemm":
            return context.deepgemm
    return not context.functions  # no-stacks


# --------------------------------------------------------------------------------------------------------------- change


def _change(row: RemedyRow, context: Context, supports: Supports) -> tuple[str, ...] | None:
    """What of the row's change is left to do, values filled in. None: it cannot be done here."""
    kept = []
    for part in row.change:
        filled = _filled(part, context)
        if filled is None:
            return None
        if row.do != "relaunch":
            kept.append(filled)
        elif filled.startswith("--") and supports(flag_of(filled)) is False:
            return None
        elif _is_needed(filled, context):
            kept.append(filled)
    return tuple(kept)


def _is_needed(change: str, context: Context) -> bool:
    verb, _, name = change.partition(" ")
    if verb == "drop":
        return name in _flags(context.argv)
    if verb == "unset":
        return name in context.variables
    if change.startswith("--"):
        flag, equals, value = change.partition("=")
        given = _flags(context.argv)
        return flag not in given or (bool(equals) and given[flag] != value)
    name, _, value = change.partition("=")
    return context.variables.get(name) != value


def flag_of(change: str) -> str:
    """``--flag=VALUE`` → ``--flag``."""
    return change.partition("=")[0]


def _filled(part: str, context: Context) -> str | None:
    """With the values of ``{…}``; None where one is not known."""
    values = _values(context)
    missing = [name for name in re.findall(r"\{([^}]*)\}", part) if values.get(name) is None]
    if missing:
        return None
    return re.sub(r"\{([^}]*)\}", lambda match: values[match[1]] or "", part)


def _values(context: Context) -> dict[str, str | None]:
    """Paths are quoted: they stand in commands for a shell, and that of a lock is what the log says."""
    port = _flags(context.argv).get("--port", "30000")
    fraction, model = context.fraction, parse(context.argv).model
    is_path = model is not None and model.startswith(("/", "./", "../"))  # else it may be a name on the hub
    return {
        "port+1": str(int(port) + 1) if port.isdigit() else None,
        "fraction-0.05": None if fraction is None else f"{max(0.1, fraction - 0.05):.2f}",
        "fraction+0.05": None if fraction is None else f"{min(0.98, fraction + 0.05):.2f}",
        "lock": None if context.lock is None else shlex.quote(context.lock),
        "model": None if model is None else shlex.quote(model),
        "directory": shlex.quote(model) if model is not None and is_path else None,
    }


def _flags(argv: Sequence[str]) -> dict[str, str]:
    """Flag as written → its value, "" for a switch."""
    given = {}
    for place, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            following = argv[place + 1] if place + 1 < len(argv) else ""
            given[flag] = value if equals else "" if following.startswith("--") else following
    return given


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------------------------------- table


@functools.cache
def rows() -> tuple[RemedyRow, ...]:
    """Raises :class:`~launchmon_agent.judge.tables.TableError`."""
    required = ("for", "order", "why", "source", "versions")
    optional = ("phases", "frames", "errors", "text", "when", "do", "change")
    return tuple(_row(id_, fields) for id_, fields in sections("remedies.table", required, optional))


def _row(id_: str, fields: Mapping[str, str]) -> RemedyRow:
    try:
        row = RemedyRow(
            id=id_,
            kinds=frozenset(words(fields["for"])),
            order=int(fields["order"]),
            phases=frozenset(words(fields["phases"])),
            chains=tuple(tuple(chain.split(" < ")) for chain in lines(fields["frames"])),
            errors=frozenset(words(fields["errors"])),
            text=re.compile(fields["text"]) if fields["text"] else None,
            when=words(fields["when"]),
            do=fields["do"] or "relaunch",
            change=lines(fields["change"]),
            why=" ".join(lines(fields["why"])),
            source=fields["source"],
            versions=Versions.parse(fields["versions"]),
        )
    except (ValueError, re.error) as error:
        raise TableError(f"[{id_}]: {error}") from None
    if row.do not in DOES or set(row.when) - set(CONDITIONS) or (row.do in ("relaunch", "run")) != bool(row.change):
        raise TableError(f"[{id_}]: do, when or change is none of those that the table's head names")
    return row
