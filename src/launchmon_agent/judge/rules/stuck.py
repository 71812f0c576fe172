"""Nothing moves. Who is it that the others wait for; and if it is nobody: a dead-lock, of which shape.

"Dead-locked" needs several independent silences at once, and is never said where work could look the same: in phases
without ranks, while weights are read (a file system that does not answer), and where other nodes take part.
"""

from __future__ import annotations

from collections.abc import Sequence

from launchmon_agent.events import CollectiveRank, Evidence, Next, RuledOut, Verdict
from launchmon_agent.judge import words
from launchmon_agent.judge.collectives import Late, late_ranks, silent_ranks
from launchmon_agent.judge.scene import STALL_S, Scene, ranks_words
from launchmon_agent.judge.stackview import StackView, meaning, place, waits
from launchmon_agent.stacks.merge import Group

WITH_STACKS_S = 12.0
"""Silence after which three dumps with equal frames are believed: they take 10 s."""

WITHOUT_STACKS_S = 22.0
"""Silence after which its length alone is."""

LOG_LONG_SILENT_S, GLANCE_S = 90.0, 9.0
"""Someone who attaches late sees a log that has been silent for long, and has watched the rest for a short time."""

LOCKABLE = ("dist-init", "weights", "kv-pool", "autotune", "graphs", "draft", "warm-up")
"""Phases in which ranks depend on each other."""

UNCLEAR = ("weights", "autotune")
"""Phases in which the same silence may be a file system that does not answer, or a kernel with little to do."""


def behind_by_counts(scene: Scene) -> Verdict | None:
    """NCCL itself names ranks here that are late: then nobody waits for another node."""
    found = _late_by_ras(scene) if _may_be_behind(scene) else None
    return None if found is None else _behind(scene, found)


def one_behind(scene: Scene) -> Verdict | None:
    """A minority is elsewhere than the rest, and does not move either."""
    found = (_late_by_stacks(scene) or _late_by_phase(scene)) if _may_be_behind(scene) else None
    return None if found is None else _behind(scene, found)


def _may_be_behind(scene: Scene) -> bool:
    return scene.quiet_s >= STALL_S and len(scene.outstanding) >= 2 and _in_start(scene, "spawn")


def _behind(scene: Scene, found: _Late) -> Verdict:
    late, why, evidence, sure = found
    waiting = tuple(rank for rank in scene.outstanding if rank not in late)
    barrier = scene.phase in ("weights", "draft")
    return Verdict(
        scene.now,
        verdict="one-behind",
        confidence="high" if sure else "medium",
        summary=f"{words.names(late)} {words.verb(late, 'is', 'are')} behind and {words.verb(late, 'does', 'do')} "
        f"nothing for {words.span(scene.quiet_s)}: {why}. {words.who(ranks_words(scene, waiting))} "
        f"{words.verb(waiting, 'waits', 'wait')}{' in the barrier after loading' if barrier else ''}.",
        blames=late,
        evidence=(*evidence, *scene.silences()),
        ruled_out=scene.ruled_out("crashed", "compiling", "reading"),
        unknown=_unknown(scene),
        next=_next(scene),
    )


def _in_start(scene: Scene, *more: str) -> bool:
    return scene.phase in (*LOCKABLE, *more) or scene.launcher_waits


_Late = tuple[tuple[str, ...], str, list[Evidence], bool]


def _late_by_ras(scene: Scene) -> _Late | None:
    """NCCL's own counts stand still and differ: the ranks behind never came to a collective."""
    answers = [answer for answer in scene.window.ras if not answer.error]
    if not answers:
        return None
    mute = _ranks_of(scene, silent_ranks(answers[-1]))
    if mute:
        return mute, "its process does not answer NCCL", [Evidence("NCCL RAS", "no answer")], True
    if len(answers) < 2:
        return None
    late = [one for one in late_ranks(answers[-2], answers[-1]) if not one.ahead_in and _ranks_of(scene, [one])]
    found = _ranks_of(scene, late)
    if not found or 2 * len(found) > len(scene.outstanding):
        return None
    first = late[0]
    told = f"{first.launched} {first.collective} launched, others {first.most}"
    return found, f"NCCL counts {told}", [Evidence("NCCL RAS", told)], True


def _ranks_of(scene: Scene, members: Sequence[CollectiveRank | Late]) -> tuple[str, ...]:
    """The ranks here among members of communicators, each once, though it is a member of several.

    Not by pid alone: containers count from one, so processes of two nodes may have the same.
    """
    ranks = {track.process.pid: rank for rank, track in scene.window.ranks.items()}
    ours = [one.pid for one in members if one.ours or (one.ours is None and scene.nnodes == 1)]
    return tuple(dict.fromkeys(ranks[pid] for pid in ours if pid in ranks))


def _late_by_stacks(scene: Scene) -> _Late | None:
    """All others wait for peers; a minority is somewhere else, and not in another collective."""
    view = scene.stacks
    if view is None or len(view.groups) < 2:
        return None
    elsewhere = [group for group in view.groups if waits(group) not in ("peers", "gpu", "node")]
    peers = [group for group in view.groups if waits(group) in ("peers", "node")]
    late = tuple(rank for rank in scene.outstanding if any(rank in group.ranks for group in elsewhere))
    if not late or not peers or 2 * len(late) > len(scene.outstanding):
        return None
    group = elsewhere[0]
    said = meaning(group)
    why = said.what if said is not None else f"it is in {place(group)}, which no other rank is in"
    return late, why, _stack_evidence(view), view.all_frozen(late)


def _late_by_phase(scene: Scene) -> _Late | None:
    """Its own lines say that it is in a phase which the others have left. A missing line alone says nothing."""
    places = {rank: scene.place_of(rank) for rank in scene.outstanding}
    first = min(places.values())
    late = tuple(rank for rank, at in places.items() if at == first)
    if len(set(places.values())) < 2 or 2 * len(late) > len(places) or not scene.enough_known:
        return None
    evidence = []
    for rank in late:
        span = scene.model.phases.current(rank)
        row = next((row for row in scene.rows if row.rank == rank), None)
        untitled = row is not None and row.named_by == "order"
        if span is None or (span.implicit and not untitled) or (span.phase == "spawn" and not untitled):
            return None
        evidence.append(Evidence(f"phase of {rank}", f"{span.phase}, since {words.span(scene.now - span.begin)}"))
    phase = scene.model.phases.current(late[0])
    return late, f"still in {phase.phase if phase else 'its start'}, which the others have left", evidence, False


def deadlock(scene: Scene) -> Verdict | None:
    """All outstanding ranks live, nothing moves, and nobody else is to blame."""
    if not _in_start(scene) or scene.nnodes > 1 or not scene.enough_known:
        return None
    if scene.phase == "warm-up" and not scene.batch_seen:
        return None
    view = scene.stacks
    if view is not None and view.read >= set(scene.outstanding):
        return _with_stacks(scene, view)
    return _without_stacks(scene)


def _with_stacks(scene: Scene, view: StackView) -> Verdict | None:
    frozen = view.all_frozen(scene.outstanding)
    patience = WITH_STACKS_S if frozen else WITHOUT_STACKS_S
    if scene.quiet_s < patience or view.moved or not _stacks_say_stuck(view):
        return None
    told = view.groups[0].explanation
    waiting = all(waits(group) in ("peers", "gpu") for group in view.groups)
    confidence = "high" if frozen and told is not None and waiting else "medium"
    if len(view.groups) > 1:
        return _divergent(scene, view, confidence)
    return _symmetric(scene, place(view.groups[0]), confidence, _stack_evidence(view), frozen=frozen)


def _stacks_say_stuck(view: StackView) -> bool:
    """Nobody works by its stack, reads, or waits for a lock, a node, the network: other rules are for these."""
    return all(waits(group) in ("peers", "gpu", "time", "request", None) for group in view.groups)


def _without_stacks(scene: Scene) -> Verdict | None:
    long_silent = (scene.log_quiet_s or 0.0) >= LOG_LONG_SILENT_S and scene.quiet_s >= GLANCE_S
    if scene.quiet_s < WITHOUT_STACKS_S and not long_silent:
        return None
    if scene.phase in UNCLEAR:
        return None
    spinning, idle = _split_by_gpu(scene)
    if spinning and idle:
        return _split(scene, spinning, idle)
    return _symmetric(scene, None, "medium", [], frozen=False)


def _split_by_gpu(scene: Scene) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ranks whose GPUs spin, and those whose GPUs are idle."""
    spinning = tuple(rank for rank, track in scene.tracks.items() if track.process.gpu in scene.spinning)
    idle = tuple(rank for rank, track in scene.tracks.items() if track.process.gpu is not None and rank not in spinning)
    return spinning, idle


def _symmetric(
    scene: Scene, where: str | None, confidence: str, evidence: list[Evidence], *, frozen: bool
) -> Verdict | None:
    ranks = scene.outstanding
    spins = 2 * len(scene.spinning) > len(scene.gpus)
    every = f"{len(ranks)} of {len(scene.alive)} ranks" if len(ranks) > 1 else f"{ranks[0]}, the only rank left,"
    have = "have" if len(ranks) > 1 else "has"
    in_ = f", {'all ' if len(ranks) > 1 else ''}in {where}" if where else ""
    behind = " No rank is behind." if where and len(ranks) > 1 else ""
    if spins:
        gpu = scene.gpus[scene.spinning[0]].gpu
        power = "" if gpu is None or gpu.power_w is None else f" at {gpu.power_w:.0f} of {gpu.power_limit_w or 0:.0f} W"
        summary = (
            f"{every} {have} made no progress for {words.span(scene.quiet_s)}{in_}: their GPUs spin at idle "
            f"power (100 %{power}), as they do while they wait for each other.{behind}"
        )
    else:
        summary = f"{every} {have} done nothing for {words.span(scene.quiet_s)}{in_}.{behind}"
    if frozen:
        evidence = [*evidence, Evidence("frames", f"the same in {scene.stacks.dumps if scene.stacks else 0} dumps")]
    return Verdict(
        scene.now,
        verdict="deadlock-spinning" if spins else "deadlock-silent",
        confidence=confidence,
        summary=summary,
        blames=ranks,
        evidence=(*evidence, *scene.silences()),
        ruled_out=_ruled_out(scene),
        unknown=_unknown(scene),
        next=_next(scene),
    )


def _divergent(scene: Scene, view: StackView, confidence: str) -> Verdict:
    small = view.groups[0]
    parts = [f"{group.label} in {place(group)}" for group in view.groups[:4]]
    return Verdict(
        scene.now,
        verdict="deadlock-divergent",
        confidence=confidence,
        summary=f"The ranks wait for each other in different places for {words.span(scene.quiet_s)}: "
        f"{words.listed(parts)}. {_minority(small, view)}",
        blames=small.ranks,
        evidence=(*_stack_evidence(view), *scene.silences()),
        ruled_out=_ruled_out(scene),
        unknown=_unknown(scene),
        next=_next(scene),
    )


def _minority(small: Group, view: StackView) -> str:
    if len(small.ranks) < len(view.groups[-1].ranks):
        return f"The minority, {small.label}, is the first to look at."
    return "The split is even: a flag that only some of the ranks act on is the usual cause."


def _split(scene: Scene, spinning: tuple[str, ...], idle: tuple[str, ...]) -> Verdict | None:
    small = min(spinning, idle, key=len)
    return Verdict(
        scene.now,
        verdict="deadlock-divergent",
        confidence="medium",
        summary=f"The ranks are in different places and none moves for {words.span(scene.quiet_s)}: the GPUs of "
        f"{words.names(spinning)} spin, those of {words.names(idle)} are idle.",
        blames=small,
        evidence=tuple(scene.silences()),
        ruled_out=_ruled_out(scene),
        unknown=_unknown(scene),
        next=_next(scene),
    )


def _ruled_out(scene: Scene) -> tuple[RuledOut, ...]:
    return scene.ruled_out("crashed", "compiling", "reading", "memory")


def _unknown(scene: Scene) -> tuple[str, ...]:
    """What is not known, and what would settle it."""
    out = list(scene.missing())
    view = scene.stacks
    problem = None if view is None else view.problem
    if problem is not None:
        out.insert(0, f"stacks of {problem.who}: {problem.problem}")
    elif view is None:
        out.insert(0, "stacks: no dump of this silence yet")
    return tuple(out)


def _next(scene: Scene) -> tuple[Next, ...]:
    view = scene.stacks
    if view is None:
        return (Next("dump", (), "the stacks of all ranks would tell where each of them is"),)
    steps = []
    problem = view.problem
    if problem is not None and problem.cure:
        steps.append(Next("run", (problem.cure,), "then the stacks can be read", "run"))
    said = view.groups[0].explanation if view.groups else None
    if said is not None and said.cure is not None:
        steps.append(Next("relaunch", (), said.cure, said.sources[0]))
    return tuple(steps)


def _stack_evidence(view: StackView) -> list[Evidence]:
    out = []
    for group in view.groups[:6]:
        said = meaning(group)
        out.append(Evidence(f"stack of {group.label}", place(group) + (f": {said.what}" if said is not None else "")))
    return out


def http_wait(scene: Scene) -> Verdict | None:
    """The ranks are up, and the server is not: its own warm-up request does not come back, or it does not listen."""
    if scene.phase not in ("http", "warm-up") or not scene.all_up or scene.moving("gpu", "compiler"):
        return None
    quiet = scene.log_quiet_s
    if quiet is None or quiet < 1.5 * STALL_S:
        return None
    http = scene.model.http
    listening = http is not None and http.listening
    if scene.phase == "warm-up" or listening:
        if scene.batch_seen:
            return None
        if _launcher_works(scene):
            return _prepared(scene)
        summary = (
            f"The server listens, and its own warm-up request has not reached the ranks for {words.span(quiet)}: "
            "it may go through a proxy."
        )
        proxy = ("no_proxy=127.0.0.1,localhost,0.0.0.0",)
        steps = [
            Next("relaunch", proxy, "keeps the warm-up request off the proxy", "issue"),
            Next("relaunch", ("--skip-server-warmup",), "shows whether only the warm-up hangs", "issue"),
        ]
    else:
        summary = (
            f"The ranks have their memory, and the server has not begun to listen for {words.span(quiet)}: "
            "the launcher is held up, or a rank that still sets itself up."
        )
        steps = [Next("dump", (), "the launcher's stack says what it waits for: a download, a name look-up")]
    evidence = [scene.ranks_evidence(), Evidence("log", f"quiet for {words.span(quiet)}, access lines aside")]
    if http is not None:
        evidence.append(Evidence(f"port {http.port}", "listens" if listening else "closed"))
        if http.model_info is not None:
            evidence.append(Evidence("/model_info", str(http.model_info)))
    if scene.stacks is not None and scene.stacks.launcher is not None:
        evidence.append(Evidence("stack of the launcher", place(scene.stacks.launcher)))
    return Verdict(
        scene.now,
        verdict="http-wait",
        confidence="medium",
        summary=summary,
        blames=("launcher",),
        evidence=tuple(evidence),
        ruled_out=scene.ruled_out("crashed", "compiling"),
        unknown=() if scene.stacks else ("what the launcher does: a stack dump would show it",),
        next=tuple(steps),
    )


def _launcher_works(scene: Scene) -> bool:
    """It waits in its event loop for its own request, unless that has to be prepared there."""
    if scene.launcher is None:
        return False
    cpu = scene.launcher.own_cpu
    quiet = cpu.quiet_s(scene.now)
    return cpu.moved_at is not None and quiet is not None and quiet < STALL_S


def _prepared(scene: Scene) -> Verdict:
    """Tokenising and image processing are the launcher's: a multimodal warm-up takes its time there."""
    cpu = None if scene.launcher is None else scene.launcher.own_cpu.value
    told = "" if cpu is None else f" (CPU {cpu:.0f} %)"
    return Verdict(
        scene.now,
        verdict="computing",
        confidence="medium",
        summary=f"The launcher works on the warm-up request{told}: prompts and images are prepared there.",
        evidence=(scene.ranks_evidence(),),
        ruled_out=scene.ruled_out("crashed", "compiling"),
        next=(Next("wait", (), "it works; the ranks get the request afterwards"),),
    )


def unknown(scene: Scene) -> Verdict | None:
    """Silence that none of the rules can tell: what is not known is said."""
    if scene.quiet_s < WITHOUT_STACKS_S or scene.phase == "ready" or scene.model.launcher is None:
        return None
    if scene.phase in ("start", "spawn"):
        kind = "an import, a name look-up or the hub does not come back"
    elif scene.phase in UNCLEAR and scene.spinning:
        kind = (
            "the GPUs are busy at idle power, with a kernel that uses little of them or while they wait for each other"
        )
    elif scene.phase in UNCLEAR:
        kind = "the file system does not answer, or the ranks wait for each other"
    else:
        kind = "no rule knows this" if scene.enough_known else "too little of it can be observed"
    return Verdict(
        scene.now,
        verdict="unknown",
        confidence="low",
        summary=f"Nothing has moved for {words.span(scene.quiet_s)} in {scene.phase}: {kind}.",
        evidence=(*(_stack_evidence(scene.stacks) if scene.stacks else ()), *scene.silences()),
        ruled_out=scene.ruled_out("crashed", "compiling"),
        unknown=_unknown(scene) or ("which of these it is",),
        next=_next(scene),
    )
