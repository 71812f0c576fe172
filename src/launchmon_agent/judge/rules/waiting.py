"""Someone is not there, or holds what the others need: a rank, another node, a lock."""

from __future__ import annotations

import shlex

from launchmon_agent.events import Evidence, Mark, Next, Verdict
from launchmon_agent.judge import words
from launchmon_agent.judge.rules.serving import continue_step, stopped_ranks
from launchmon_agent.judge.scene import STALL_S, Scene, ranks_words
from launchmon_agent.judge.stackview import meaning, place, waits

MISSING_S = 3.0
"""For as long a rank has to be without a process: the table is read while processes start."""

SPAWNED = ("dist-init", "weights", "kv-pool", "autotune", "graphs", "draft", "http", "warm-up", "ready")
"""Phases of a rank in which all ranks of its node have been started."""


def rank_missing(scene: Scene) -> Verdict | None:
    """A rank has no process, though others are past the point at which all had one; nobody saw it end."""
    if scene.model.processes is None or not scene.alive or scene.model.launcher is None:
        return None
    if not any(_phase(scene, rank) in SPAWNED for rank in scene.alive):
        return None
    missing = tuple(row.rank for row in scene.rows if not row.pid and row.rank is not None)
    since = scene.window.observed_since or scene.now
    missing = tuple(rank for rank in missing if scene.now - scene.window.rank_seen_at.get(rank, since) >= MISSING_S)
    if not missing:
        return None
    return Verdict(
        scene.now,
        verdict="rank-missing",
        confidence="high",
        summary=f"{words.names(missing)} {words.verb(missing, 'has', 'have')} no process any more, and the other "
        f"{len(scene.alive)} {words.verb(scene.alive, 'rank waits', 'ranks wait')} for it. The launcher says nothing.",
        blames=missing,
        evidence=(scene.ranks_evidence(), *_log_evidence(scene)),
        unknown=("how it ended: nobody was watching; dmesg -T | grep -i -e oom -e xid may tell",),
        next=(Next("kill", (), "the others would wait for ever", "issue"),),
    )


def _phase(scene: Scene, rank: str) -> str | None:
    span = scene.model.phases.current(rank)
    return None if span is None else span.phase


def _log_evidence(scene: Scene) -> list[Evidence]:
    quiet = scene.log_quiet_s
    return [] if quiet is None else [Evidence("log", f"quiet for {words.span(quiet)}")]


def stopped(scene: Scene) -> Verdict | None:
    """SIGSTOP, or a debugger that was left: it does nothing until continued, and the others wait for it."""
    found = stopped_ranks(scene)
    if not found:
        return None
    return Verdict(
        scene.now,
        verdict="one-behind",
        confidence="high",
        summary=f"{words.names(found)} {words.verb(found, 'is', 'are')} stopped (state T) in {scene.phase}: "
        "nothing goes on until someone continues it.",
        blames=found,
        evidence=(scene.ranks_evidence(), Evidence("state", "T: stopped by a signal")),
        next=(continue_step(scene, found),),
    )


def waiting_peer(scene: Scene) -> Verdict | None:
    """All ranks here are up to the rendezvous or a collective, and other nodes are part of it."""
    if not scene.alive or scene.quiet_s < STALL_S:
        return None
    at_node = _ranks_waiting(scene, "node")
    if scene.nnodes < 2:
        return _rendezvous_on_one_node(scene, at_node)
    if any(row.pid == 0 for row in scene.rows):
        return None
    if scene.phase in ("dist-init", "start", "spawn") or at_node:
        if scene.phase in ("start", "spawn") and not at_node:
            return None
        return _no_peer(scene, at_node)
    if scene.phase in SPAWNED[1:]:
        return _peer_elsewhere(scene)
    return None


def _ranks_waiting(scene: Scene, for_whom: str) -> tuple[str, ...]:
    if scene.stacks is None:
        return ()
    return tuple(rank for group in scene.stacks.groups if waits(group) == for_whom for rank in group.ranks)


def _no_peer(scene: Scene, at_node: tuple[str, ...]) -> Verdict:
    address = dist_address(scene)
    others = scene.nnodes - 1
    where = f" at {address}" if address else ""
    evidence = [scene.ranks_evidence(), Evidence("nodes", f"{scene.nnodes}, this is node {_node(scene)}")]
    if address:
        evidence.append(Evidence("rendezvous", address))
    evidence += scene.silences()[1:]
    return Verdict(
        scene.now,
        verdict="waiting-peer",
        confidence="high" if at_node else "medium",
        summary=f"{ranks_words(scene, scene.alive).capitalize() if len(scene.alive) > 1 else scene.alive[0]} "
        f"{words.verb(scene.alive, 'waits', 'wait')} in the rendezvous{where} for "
        f"{'the other node' if others == 1 else f'the other {others} nodes'}, for {words.span(scene.quiet_s)}.",
        blames=_other_nodes(scene),
        evidence=tuple(evidence),
        ruled_out=scene.ruled_out("crashed", "compiling", "reading"),
        unknown=("what the other nodes do: attach to them too (--on HOST for each)",),
        next=(
            Next("run", _probe(address), "run it on the other nodes: can they reach the rendezvous?", "run"),
            Next("wait", (), "start the missing node with the same --nnodes, --tp and --dist-init-addr"),
        ),
    )


def _peer_elsewhere(scene: Scene) -> Verdict | None:
    """Past the rendezvous, silence here says nothing of the other nodes: they may still read or compile."""
    busy_here = [rank for rank in scene.alive if scene.place_of(rank) < max(map(scene.place_of, scene.alive))]
    if scene.quiet_s < 2 * STALL_S or busy_here or not scene.enough_known:
        return None
    working = scene.stacks is not None and any(waits(group) in ("no", "lock", "child") for group in scene.stacks.groups)
    if working:
        return None
    return Verdict(
        scene.now,
        verdict="waiting-peer",
        confidence="medium" if scene.stacks else "low",
        summary=f"{ranks_words(scene, scene.alive).capitalize() if len(scene.alive) > 1 else scene.alive[0]} here "
        f"{words.verb(scene.alive, 'has', 'have')} done nothing for {words.span(scene.quiet_s)} in {scene.phase}: "
        "waiting for another node, which may work or hang.",
        blames=_other_nodes(scene),
        evidence=tuple(scene.silences()),
        ruled_out=scene.ruled_out("crashed", "compiling", "reading"),
        unknown=("what the other nodes do: attach to them too (--on HOST for each)",),
        next=(Next("dump", (), "on all nodes: a split by node points at the node's path"),),
    )


def _rendezvous_on_one_node(scene: Scene, at_node: tuple[str, ...]) -> Verdict | None:
    """All ranks there are wait for more: sizes or an address that somebody else's environment set."""
    if not at_node or set(at_node) != set(scene.outstanding) or len(at_node) < len(scene.rows):
        return None
    return Verdict(
        scene.now,
        verdict="waiting-peer",
        confidence="medium",
        summary=f"All {len(at_node)} ranks wait in the rendezvous, and none is missing: it expects more ranks than "
        "this run has, or another process answers at its address.",
        blames=at_node,
        evidence=tuple(scene.silences()),
        unknown=("who listens at the rendezvous address: ss -tlnp",),
        next=(Next("relaunch", (), "without an inherited RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"),),
    )


def dist_address(scene: Scene) -> str | None:
    """``--dist-init-addr`` as SGLang resolved it, else as given."""
    for mark in reversed(scene.model.marks("args")):
        if mark.values.get("dist_init_addr"):
            return mark.values["dist_init_addr"]
    argv = scene.model.run.argv if scene.model.run is not None else ()
    for flag in ("--dist-init-addr", "--nccl-init-addr"):
        for place_, word in enumerate(argv):
            if word == flag and place_ + 1 < len(argv):
                return argv[place_ + 1]
            if word.startswith(f"{flag}="):
                return word.partition("=")[2]
    return None


def _probe(address: str | None) -> tuple[str, ...]:
    if not address or ":" not in address:
        return ("nc -vz HOST PORT",)
    host, _, port = address.rpartition(":")
    return (f"nc -vz {host} {port}",)


def _node(scene: Scene) -> int:
    return 0 if scene.model.run is None else scene.model.run.node_rank


def _other_nodes(scene: Scene) -> tuple[str, ...]:
    others = [number for number in range(scene.nnodes) if number != _node(scene)]
    return tuple(f"node {number}" for number in others[:4])


def waiting_lock(scene: Scene) -> Verdict | None:
    """Ranks wait for a lock that nobody who works holds: a builder that died has left it."""
    if scene.quiet_s < STALL_S or scene.moving("compiler", "cpu", "gpu", "read", "write"):
        return None
    held = _ranks_waiting(scene, "lock")
    stacks = scene.stacks
    if stacks is not None and stacks.read:
        if not held:
            return None
        groups = [group for group in stacks.groups if group.ranks[0] in held]
        said = meaning(groups[0])
        if said is not None and said.id in ("thread-wait", "kernel-futex"):
            return None  # a lock inside the process, not a file
        evidence = [Evidence(f"stack of {group.label}", place(group)) for group in groups]
        what = f"{words.names(held)} {words.verb(held, 'waits', 'wait')} for a lock"
        cure = said.cure if said is not None else None
    else:
        mark = scene.window.last_mark
        if mark is None or mark.phase != "jit" or not scene.enough_known or scene.quiet_s < 1.5 * STALL_S:
            return None
        held = (mark.rank,) if mark.rank in scene.alive else scene.outstanding
        evidence = [Evidence("last line about a build", mark.text)]
        what = "A kernel build was begun, and nothing builds it"
        cure = None
    lock = _lock_path(scene)
    return Verdict(
        scene.now,
        verdict="waiting-lock",
        confidence="high" if stacks is not None and stacks.all_frozen(held) else "medium",
        summary=f"{what}, for {words.span(scene.quiet_s)}: no compiler runs on any rank, so whoever held it has died.",
        blames=held,
        evidence=(*evidence, Evidence("compilers", "0"), *scene.silences()[1:]),
        ruled_out=scene.ruled_out("crashed", "compiling", "reading"),
        unknown=() if lock else ("which lock file it is: the log does not name it",),
        next=(
            Next("kill", (), "all ranks, before the lock is removed", "issue"),
            Next(
                "run",
                (f"rm {shlex.quote(lock)}" if lock else "ls -lR ~/.cache/flashinfer ~/.cache/torch_extensions",),
                cure or "delete that lock file or its directory; the next launch builds again",
                "issue",
            ),
        ),
    )


def _lock_path(scene: Scene) -> str | None:
    marks: list[Mark] = scene.model.marks("jit")
    return next((mark.values["lock"] for mark in reversed(marks) if mark.values.get("lock")), None)
