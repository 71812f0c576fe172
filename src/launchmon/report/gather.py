"""Collects what a report tells, from a live session as from a recording, and rewrites all of it without secrets."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launchmon.redact import Redactor
from launchmon.replay.recorded import Recorded
from launchmon_agent.codec import Malformed, encode, from_body
from launchmon_agent.errors import Refused
from launchmon_agent.events import LogError, Verdict
from launchmon_agent.model import RunModel
from launchmon_agent.redaction import redacted_object
from launchmon_agent.runs.recording import SAMPLES

if TYPE_CHECKING:
    from launchmon.session_like import LineLike, SessionLike

MOST = 24 << 20
"""Bytes of events in a report. Of a longer recording, samples are left out: those of long ago first."""

RECENT_S = 600.0
EVERY_S = 10.0
"""Of a recording that is too long, the last RECENT_S keep all samples, the rest one of each kind in EVERY_S."""

ERRORS = 6
BEFORE, AFTER, LAST = 3, 24, 25
"""Errors that are shown, lines around each, and lines at the end of the log."""


@dataclass(frozen=True)
class Excerpt:
    """Lines of the log that follow each other. ``marked`` are the places of the errors among them."""

    title: str
    lines: tuple[str, ...]
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Material:
    """Everything in it is fit to be shared."""

    model: RunModel
    whole: RunModel  # the run when last all its ranks were seen: what it ran on
    verdict: Verdict | None  # the last; of a run that was ended on request, the last before that
    lines: tuple[bytes, ...]  # the recording
    excerpts: tuple[Excerpt, ...]
    no_log: str | None  # why there are none
    software: Mapping[str, str]
    ledger: Mapping[str, Any] | None
    left_out: int  # samples of the recording
    redacted: Mapping[str, int] = field(default_factory=dict)  # kind → places


async def gather(source: SessionLike, *, keep_names: bool = False) -> Material:
    """Raises :class:`Refused` where there is no recording at all."""
    lines = await source.recording()
    newest = source.model.verdict
    if newest is not None:
        lines.append(encode(newest))  # a recording holds the same verdict once a minute only
    ledger, software, excerpts, no_log = None, {}, [], None
    with suppress(Refused):
        ledger = await source.ledger()
    with suppress(Refused):
        software = await source.software()
    try:
        excerpts = await _excerpts(source)
    except Refused as refused:
        no_log = f"{refused.what} ({refused.cause})" if refused.cause else refused.what
    return await asyncio.to_thread(
        _rewritten, lines, excerpts, no_log, ledger, software, _redactor(source, keep_names=keep_names)
    )


def _redactor(source: SessionLike, *, keep_names: bool) -> Redactor:
    """That knows the names of both machines, which are often one."""
    hello = source.hello
    users, hosts = [], [socket.gethostname()]
    with suppress(KeyError, OSError):
        users.append(getpass.getuser())
    if hello is not None:
        users.append(hello.user)
        hosts.append(hello.hostname)
    return Redactor(users, hosts, keep_names=keep_names)


def _rewritten(
    lines: Sequence[bytes],
    excerpts: Sequence[Excerpt],
    no_log: str | None,
    ledger: Mapping[str, Any] | None,
    software: Mapping[str, str],
    redactor: Redactor,
) -> Material:
    bodies = [body for body in map(_parsed, lines) if body is not None]
    kept = _thinned(bodies) if sum(map(len, lines)) > MOST else bodies
    for body in kept:
        redactor.learn(body)
    model, verdict, out = RunModel(), None, []
    for body in kept:
        clean = redacted_object(body, redactor)
        out.append(json.dumps(clean, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n")
        with suppress(Malformed):
            model.fold(from_body(clean))
        if model.verdict is not None and model.verdict.verdict != "stopped":
            verdict = model.verdict
    return Material(
        model=model,
        whole=_whole(out, model),
        verdict=verdict or model.verdict,
        lines=tuple(out),
        excerpts=tuple(
            Excerpt(one.title, tuple(redactor.text(line) for line in one.lines), one.marked) for one in excerpts
        ),
        no_log=None if no_log is None else redactor.text(no_log),
        software=software,
        ledger=None if ledger is None else redacted_object(dict(ledger), redactor),
        left_out=len(bodies) - len(kept),
        redacted=dict(redactor.counts),
    )


def _whole(lines: Sequence[bytes], last: RunModel) -> RunModel:
    ranks = [line.count(b'"role":"scheduler"') for line in lines]
    if not any(ranks):
        return last
    newest = max(range(len(lines)), key=lambda place: (ranks[place], place))
    return Recorded(lines).model_at(newest + 1)


def _parsed(line: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        body = json.loads(line)
        if isinstance(body, dict) and isinstance(body.get("kind"), str) and isinstance(body.get("at"), (int, float)):
            return body
    return None


def _thinned(bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    recent = max((body["at"] for body in bodies), default=0.0) - RECENT_S
    sampled: dict[str, float] = {}
    out = []
    for body in bodies:
        kind, at = body["kind"], body["at"]
        if kind in SAMPLES and at < recent:
            if at - sampled.get(kind, float("-inf")) < EVERY_S:
                continue
            sampled[kind] = at
        out.append(body)
    return out


# -------------------------------------------------------------------------------------------------------------- the log


async def _excerpts(source: SessionLike) -> list[Excerpt]:
    """The lines around the first errors, then the end. Raises :class:`Refused` where the log cannot be read."""
    end = await source.window("end", LAST, 0)
    found = []
    for errors in _near(_worst(source.model.errors)):
        window = await source.window(errors[0].offset, BEFORE, AFTER)
        ranks = ", ".join(dict.fromkeys(error.rank for error in errors))
        found.append(_excerpt(f"{errors[0].severity} of {ranks}", window.lines, {error.offset for error in errors}))
    return [*found, _excerpt("the last lines", end.lines, set())]


def _worst(errors: Sequence[LogError]) -> list[LogError]:
    """The first of the most serious, in the order of the log."""
    order = ("fatal", "error", "consequence", "warning")
    ranked = sorted(errors, key=lambda error: (order.index(error.severity), error.offset))
    return sorted(ranked[:ERRORS], key=lambda error: error.offset)


def _near(errors: Sequence[LogError]) -> list[list[LogError]]:
    """Errors so close to each other that one excerpt shows them: eight ranks fail with the same words."""
    groups: list[list[LogError]] = []
    for error in errors:
        if groups and error.offset - groups[-1][0].offset < 100 * AFTER:
            groups[-1].append(error)
        else:
            groups.append([error])
    return groups


def _excerpt(title: str, lines: Sequence[LineLike], offsets: set[int]) -> Excerpt:
    marked = frozenset(place for place, line in enumerate(lines) if line.offset in offsets)
    return Excerpt(title, tuple(line.text for line in lines), marked)
