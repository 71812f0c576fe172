"""What is going on over all nodes of one run, from what is known of each. Pure.

The judge of one node sees the others only as silence. This one holds the nodes' verdicts against each other, in the
order of the judge itself: whatever failed first is the cause, who is absent is named before who waits, whatever moves
makes it slow, and only where every node stands still is it a dead-lock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from launchmon_agent.events import Evidence, Next, Stacks, Verdict
from launchmon_agent.judge import words
from launchmon_agent.judge.cause import first_cause
from launchmon_agent.judge.networks import differing
from launchmon_agent.judge.stackview import place
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.rail import RAIL
from launchmon_agent.stacks.merge import merge

MOVES = ("starting", "compiling", "downloading", "reading", "computing")
"""Verdicts of a node that gets on, the one to tell first first."""

AT_FAULT = ("rank-missing", "waiting-lock", "one-behind", "hung-serving", "http-wait")
"""Verdicts of a node that holds the others up by something of its own, the plainest first."""

STILL = ("waiting-peer", "deadlock-silent", "deadlock-spinning", "deadlock-divergent")
"""Verdicts of a node that waits, for others or with them."""

READY = ("ready", "serving")

CONSEQUENCE_S = 60.0
"""A failure that says itself that it follows another is taken for so much later."""


@dataclass(frozen=True)
class Node:
    """One node, as its agent tells it."""

    number: int  # its --node-rank
    label: str  # of its target: "root@gpu7"
    model: RunModel | None  # None: nothing of the run is known there
    problem: str | None = None  # why nothing is known, or nothing new: "no SGLang runs there", "the link is lost"
    offset_s: float = 0.0  # to add to the node's times for those of the client
    absent: bool = False  # it was looked at, and no process of the run is there
    link: str = "live"  # to its agent: none | connecting | live | lost | ended
    hostname: str | None = None  # as its agent says it

    @property
    def verdict(self) -> Verdict | None:
        return None if self.model is None else self.model.verdict

    @property
    def kind(self) -> str | None:
        return None if self.verdict is None else self.verdict.verdict

    @property
    def name(self) -> str:
        """``node 1 (root@gpu8)``."""
        return f"node {self.number} ({self.label})"

    @property
    def place(self) -> int:
        """How far its slowest living rank is, by its phase; -1 where that is not known."""
        board = None if self.model is None else self.model.phases
        if board is None:
            return -1
        current = {rank: board.current(rank) for rank in board.ranks()}
        places = [RAIL.index(span.rail_phase) for rank, span in current.items() if span and not board.is_up(rank)]
        return min(places, default=len(RAIL) if any(map(board.is_up, current)) else -1)

    @property
    def phase(self) -> str:
        if self.place < 0:
            return "no phase"
        return RAIL[self.place] if self.place < len(RAIL) else "ready"


def judge_cluster(nodes: Sequence[Node], now: float) -> Verdict:
    """The verdict over ``nodes`` at ``now``, by the client's clock. ``nodes`` is not empty."""
    all_ = _All(tuple(nodes), tuple(node for node in nodes if node.verdict is not None), now)
    for rule in (_crashed, _stopped, _absent, _ready, _moving, _at_fault, _still):
        verdict = rule(all_)
        if verdict is not None:
            return _complete(verdict, nodes)
    return _complete(
        Verdict(now, verdict="unknown", summary="Nothing is known yet of how the nodes get on together."), nodes
    )


@dataclass(frozen=True)
class _All:
    nodes: tuple[Node, ...]
    known: tuple[Node, ...]  # those with a verdict
    now: float


def _crashed(all_: _All) -> Verdict | None:
    failed = [(at, node) for node in all_.known if node.kind == "crashed" for at in (_failed_at(node),)]
    if not failed:
        return None
    at, cause = min(failed, key=lambda pair: pair[0])
    verdict = _verdict(cause)
    others = [node for node in all_.known if node is not cause]
    later = [(time, node) for time, node in failed if node is not cause]
    evidence = [Evidence("failed first", cause.name)]
    for time, node in later:
        evidence.append(Evidence("failed after it", f"{node.name}, {max(0.0, time - at):.1f} s later"))
    evidence += [Evidence(node.name, node.kind or "–") for node in others if node.kind != "crashed"]
    victims = words.listed([f"node {node.number}" for node in others])
    after = f" {words.who(victims)} {words.verb(others, 'is a victim', 'are victims')}." if others else ""
    return dataclasses.replace(
        verdict,
        at=all_.now,
        summary=f"On {cause.name}: {verdict.summary}{after}",
        blames=_named(cause),
        evidence=(*evidence, *verdict.evidence),
    )


def _failed_at(node: Node) -> float:
    """Of its first failure, by the client's clock. Log lines are cut to a whole second, which a second's half evens."""
    assert node.model is not None
    cause = first_cause(node.model)
    if cause is None:
        return _verdict(node).at + node.offset_s
    seen = [event.at for event in (cause.exit, cause.kernel) if event is not None]
    if cause.error is not None and not seen:
        seen = [cause.error.at + 0.5]
    follows = cause.error is not None and cause.error.severity == "consequence"
    return min(seen) + node.offset_s + (CONSEQUENCE_S if follows else 0.0)


def _stopped(all_: _All) -> Verdict | None:
    stopped = [node for node in all_.known if node.kind == "stopped"]
    if not stopped:
        return None
    rest = [node for node in all_.known if node not in stopped]
    if not rest:
        return Verdict(all_.now, verdict="stopped", confidence="high", summary="The server was stopped on every node.")
    where, who = _names(stopped), _names(rest)
    return Verdict(
        all_.now,
        verdict="rank-missing",
        confidence="high",
        summary=f"The server was stopped on {where}, and still runs on {who}, which cannot go on alone.",
        blames=tuple(f"node {node.number}" for node in stopped),
        evidence=tuple(Evidence(node.name, node.kind or "–") for node in all_.known),
        next=(Next("kill", (), "what is left waits for ranks that are gone"),),
    )


def _absent(all_: _All) -> Verdict | None:
    absent = [node for node in all_.nodes if node.absent]
    waiting = [node for node in all_.known if node.kind in STILL]
    if not absent or not waiting:
        return None
    here = waiting[0]
    address = next((item.value for item in _verdict(here).evidence if item.what == "rendezvous"), None)
    where = f" at {address}" if address else ""
    return Verdict(
        all_.now,
        verdict="waiting-peer",
        confidence="high",
        summary=f"Nothing of the run is on {_names(absent)}: {_names(waiting)} {words.verb(waiting, 'waits', 'wait')}"
        f"{where} for it to be started.",
        blames=tuple(f"node {node.number}" for node in absent),
        evidence=(
            *(Evidence(node.name, node.problem or "no process of an SGLang server") for node in absent),
            *_verdict(here).evidence,
        ),
        ruled_out=_verdict(here).ruled_out,
        next=(
            Next(
                "run",
                (f"--node-rank {absent[0].number}",),
                f"start the same command on {absent[0].label}, with this --node-rank",
            ),
        ),
    )


def _ready(all_: _All) -> Verdict | None:
    """Node 0 serves for all; the others have no server of their own that could become ready."""
    first = min(all_.known, key=lambda node: node.number, default=None)
    faults = [node for node in all_.known if node.kind in AT_FAULT and node.kind != "http-wait"]
    if first is None or first.kind not in READY or faults:
        return None
    kinds = tuple(Evidence(node.name, node.kind or "–") for node in all_.known)
    return dataclasses.replace(_verdict(first), at=all_.now, evidence=(*kinds, *_verdict(first).evidence))


def _moving(all_: _All) -> Verdict | None:
    moving = [node for node in all_.known if node.kind in MOVES]
    if not moving:
        return None
    slowest = min(moving, key=lambda node: (node.place, MOVES.index(node.kind or ""), node.number))
    waiting = [node for node in all_.known if node.kind in STILL and node.place >= slowest.place]
    said = _verdict(slowest)
    waits = f" {words.who(_names(waiting))} {words.verb(waiting, 'waits', 'wait')} for it." if waiting else ""
    return dataclasses.replace(
        said,
        at=all_.now,
        summary=f"On {slowest.name}: {said.summary}{waits}",
        evidence=(*(Evidence(node.name, node.kind or "–") for node in all_.known), *said.evidence),
    )


def _at_fault(all_: _All) -> Verdict | None:
    found = [node for node in all_.known if node.kind in AT_FAULT]
    if not found:
        return None
    node = min(found, key=lambda one: (AT_FAULT.index(one.kind or ""), one.number))
    said = _verdict(node)
    rest = [other for other in all_.known if other is not node and other.kind in STILL]
    waits = f" {words.who(_names(rest))} {words.verb(rest, 'waits', 'wait')} for it." if rest else ""
    return dataclasses.replace(
        said,
        at=all_.now,
        summary=f"On {node.name}: {said.summary}{waits}",
        blames=_named(node),
        evidence=(*(Evidence(other.name, other.kind or "–") for other in all_.known), *said.evidence),
    )


def _still(all_: _All) -> Verdict | None:
    """No node moves, and each waits for others."""
    if not all_.known or any(node.kind not in STILL for node in all_.known):
        return None
    lost = [node for node in all_.nodes if node not in all_.known]
    behind = _behind(all_.known)
    evidence = [*_places(all_.known), *_addresses(all_.known), *_silences(all_.known)]
    if lost:
        first = all_.known[0]
        return dataclasses.replace(
            _verdict(first), at=all_.now, evidence=(*evidence, *_verdict(first).evidence), confidence="low"
        )
    if all(node.place <= RAIL.index("dist-init") for node in all_.known):
        return _rendezvous(all_.known, all_.now, evidence)
    if behind:
        late, rest = behind, [node for node in all_.known if node not in behind]
        return Verdict(
            all_.now,
            verdict="one-behind",
            confidence="medium",
            summary=f"{words.who(_names(late))} {words.verb(late, 'is', 'are')} still in {late[0].phase} and "
            f"{words.verb(late, 'does', 'do')} nothing, which {_names(rest)} {words.verb(rest, 'has', 'have')} left.",
            blames=tuple(rank for node in late for rank in _ranks(node)),
            evidence=tuple(evidence),
            unknown=_verdict(late[0]).unknown,
            next=(Next("dump", (), "of all nodes at once: where are the ranks that are behind?"),),
        )
    return _deadlock(all_.known, all_.now, evidence)


def _rendezvous(known: Sequence[Node], now: float, evidence: list[Evidence]) -> Verdict:
    addresses = {item.value for node in known for item in _verdict(node).evidence if item.what == "rendezvous"}
    why = (
        f"they were given different addresses: {words.listed(sorted(addresses))}"
        if len(addresses) > 1
        else "they do not reach each other: a firewall, another network interface, or other --nnodes and --tp"
    )
    return Verdict(
        now,
        verdict="waiting-peer",
        confidence="high" if len(addresses) > 1 else "medium",
        summary=f"All {len(known)} nodes wait in the rendezvous, and none is missing: {why}.",
        blames=tuple(f"node {node.number}" for node in known),
        evidence=tuple(evidence),
        next=_verdict(known[0]).next,
    )


def _deadlock(known: Sequence[Node], now: float, evidence: list[Evidence]) -> Verdict:
    silences = [seconds for node in known if (seconds := _quiet(node, now)) is not None]
    quiet = f" for {words.span(min(silences))}" if silences else ""
    groups = _groups(known)
    where = {node.number: groups.get(node.number) for node in known}
    told = [value for value in where.values() if value]
    ranks = tuple(rank for node in known for rank in _ranks(node))
    if len(set(told)) > 1:
        split = words.listed([f"node {number} in {value}" for number, value in where.items() if value])
        return Verdict(
            now,
            verdict="deadlock-divergent",
            confidence="medium",
            summary=f"No node has done anything{quiet}, and the ranks are split by node: {split}.",
            blames=ranks,
            evidence=tuple(evidence),
            next=_network_steps(),
        )
    spins = any(node.kind == "deadlock-spinning" for node in known)
    one = f", all in {told[0]}" if told and len(told) == len(known) else ""
    return Verdict(
        now,
        verdict="deadlock-spinning" if spins else "deadlock-silent",
        confidence="high" if one and all(_verdict(node).confidence != "low" for node in known) else "medium",
        summary=f"{len(ranks)} ranks on {len(known)} nodes have done nothing{quiet}{one}. No node is behind: the path "
        "between the nodes is the first suspect.",
        blames=ranks,
        evidence=tuple(evidence),
        next=_network_steps(),
    )


def _network_steps() -> tuple[Next, ...]:
    return (
        Next("dump", (), "of all nodes at once, to see who is in which collective"),
        Next("relaunch", ("NCCL_DEBUG=INFO",), "NCCL then says which interfaces and transports each node took"),
    )


def _behind(known: Sequence[Node]) -> list[Node]:
    """A minority of nodes in an earlier phase than all others; none where it is no minority of the ranks."""
    places = {node.number: node.place for node in known}
    first = min(places.values())
    late = [node for node in known if places[node.number] == first]
    return late if len(set(places.values())) > 1 and 2 * len(late) <= len(known) else []


def _groups(known: Sequence[Node]) -> dict[int, str]:
    """Node → where its ranks are, of nodes whose last dump shows all of them in one place."""
    found = {}
    for node in known:
        dumps: list[Stacks] = [] if node.model is None else node.model.stacks
        groups = merge(dumps[-1]).groups if dumps else ()
        if len(groups) == 1:
            found[node.number] = place(groups[0])
    return found


def _places(known: Sequence[Node]) -> list[Evidence]:
    groups = _groups(known)
    return [
        Evidence(node.name, ", in ".join(part for part in (node.phase, groups.get(node.number)) if part))
        for node in known
    ]


def _addresses(known: Sequence[Node]) -> list[Evidence]:
    return [
        Evidence(f"rendezvous of node {node.number}", item.value)
        for node in known
        for item in _verdict(node).evidence
        if item.what == "rendezvous"
    ]


def _silences(known: Sequence[Node]) -> list[Evidence]:
    """What the node's own verdict rests on, each said with its node."""
    return [
        Evidence(f"node {node.number}: {item.what}", item.value)
        for node in known
        for item in _verdict(node).evidence
        if item.what not in ("rendezvous", "nodes")
    ]


def _quiet(node: Node, now: float) -> float | None:
    """Seconds since the last line of its log, by the client's clock; None: not known."""
    log = None if node.model is None else node.model.log
    return None if log is None or log.grown_at is None else max(0.0, now - (log.grown_at + node.offset_s))


def _ranks(node: Node) -> tuple[str, ...]:
    return () if node.model is None else tuple(row.rank for row in node.model.rank_rows() if row.rank)


def _named(node: Node) -> tuple[str, ...]:
    """Ranks are named alike on all nodes; a launcher is not."""
    return tuple(who if who in _ranks(node) else f"{who} of node {node.number}" for who in _verdict(node).blames)


def _names(nodes: Sequence[Node]) -> str:
    return words.listed([node.name for node in nodes])


def _verdict(node: Node) -> Verdict:
    assert node.verdict is not None
    return node.verdict


def _complete(verdict: Verdict, nodes: Sequence[Node]) -> Verdict:
    """With the networks of the nodes where they explain it, and with what is not known of nodes that do not answer."""
    if verdict.verdict not in (*READY, *MOVES):
        networks = differing({node.number: node.model for node in nodes if node.model is not None})
        told = tuple(Evidence(f"NCCL's network on node {number}", network) for number, network in networks.items())
        verdict = dataclasses.replace(verdict, evidence=(*told, *verdict.evidence))
    silent = tuple(f"{node.name}: {node.problem}" for node in nodes if node.problem and not node.absent)
    return dataclasses.replace(verdict, unknown=(*silent, *verdict.unknown)) if silent else verdict
