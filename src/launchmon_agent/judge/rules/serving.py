"""The ready line is printed: ready, serving, hung, or not what it says."""

from __future__ import annotations

from launchmon_agent.events import Beat, Evidence, Next, Verdict
from launchmon_agent.judge import words
from launchmon_agent.judge.gauges import FRESH_S
from launchmon_agent.judge.scene import STALL_S, Scene
from launchmon_agent.judge.stackview import place, waits
from launchmon_agent.judge.tracks import ProcessTrack

HUNG_S = 15.0
"""Age of a heartbeat after which a silent replica is stuck. Seen on healthy ones: 0.3 s, 1.4 s during a compile."""

QUEUE_S = 25.0
"""For as long the numbers of requests stand still, and everything else with them, where there is no heartbeat."""


def port_of_another(scene: Scene) -> Verdict | None:
    """The ready line alone can lie: the warm-up of a server that lost its port talks to the server that has it."""
    http = scene.model.http
    if scene.phase != "ready" or http is None or http.ours is not False:
        return None
    return Verdict(
        scene.now,
        verdict="crashed",
        confidence="high",
        summary=f"Not ready, although it says so: port {http.port} is held by another server, pid {http.owner_pid}.",
        blames=("launcher",),
        evidence=(
            Evidence("ready line", "printed"),
            Evidence(f"port {http.port}", f"held by pid {http.owner_pid}, not of this run"),
        ),
        next=(Next("relaunch", ("--port",), "choose a port that is free"),),
    )


def hung(scene: Scene) -> Verdict | None:
    """A rank is stopped, the event loop does not turn, or requests wait and nothing moves."""
    if scene.phase != "ready" or not scene.window.ranks:
        return None
    for rule in (_stopped, _heartless, _queue_stands):
        verdict = rule(scene)
        if verdict is not None:
            return verdict
    return None


def suspicious(scene: Scene) -> bool:
    """Work is outstanding while serving, and nothing has moved for a while: the stacks are worth a look."""
    old = any(beat.age_s is not None and _age(scene, beat) >= STALL_S for beat in scene.window.beats.values())
    stands = scene.window.requests_moved_at is not None and scene.now - scene.window.requests_moved_at >= STALL_S
    waiting = stands and _requests(scene) is not None and (scene.log_quiet_s or 0.0) >= STALL_S
    return (old or waiting) and not _works(scene)


def _stopped(scene: Scene) -> Verdict | None:
    stopped = stopped_ranks(scene)
    if not stopped:
        return None
    since = max(scene.now - (scene.window.ranks[rank].stopped_since or scene.now) for rank in stopped)
    return Verdict(
        scene.now,
        verdict="hung-serving",
        confidence="high",
        summary=f"{words.names(stopped)} {words.verb(stopped, 'is', 'are')} stopped (state T), so no request is "
        "answered until someone continues it.",
        blames=stopped,
        evidence=(Evidence("stopped", f"for {words.span(since)} at least"), *_beat_evidence(scene)),
        next=(continue_step(scene, stopped),),
    )


def stopped_ranks(scene: Scene) -> tuple[str, ...]:
    """Ranks that SIGSTOP holds; a debugger that looks at one for a moment is none."""
    return tuple(
        rank
        for rank, track in scene.window.ranks.items()
        if track.stopped_since is not None and scene.now - track.stopped_since >= 2.0
    )


def continue_step(scene: Scene, ranks: tuple[str, ...]) -> Next:
    pids = " ".join(str(scene.window.ranks[rank].process.pid) for rank in ranks)
    return Next("run", (f"kill -CONT {pids}",), "continue what was stopped", "run")


def _heartless(scene: Scene) -> Verdict | None:
    """The age grows during a long prefill and a compile too, so whoever works is not hung."""
    beats = scene.window.beats.items()
    old = {rank: beat for rank, beat in beats if beat.age_s is not None and _age(scene, beat) >= HUNG_S}
    if not old or _works(scene):
        return None
    oldest = max(_age(scene, beat) for beat in old.values())
    still = _idle_ranks(scene)
    return Verdict(
        scene.now,
        verdict="hung-serving",
        confidence="high" if still else "medium",
        summary=f"The event loop of {words.names(old)} has not turned for {words.span(oldest)}: "
        f"the server takes requests and answers none.",
        blames=_elsewhere(scene) or tuple(old),
        evidence=(*_beat_evidence(scene), *_cpu_evidence(scene), *_stack_evidence(scene)),
        ruled_out=scene.ruled_out("crashed", "compiling"),
        unknown=() if scene.stacks else ("where it is stuck: a stack dump would show it",),
        next=(Next("dump", (), "see where each rank is, before anything is restarted"),),
    )


def _age(scene: Scene, beat: Beat) -> float:
    """Its age now; the sensor gave that of its own moment."""
    return (beat.age_s or 0.0) + max(0.0, scene.now - (scene.window.beats_at or scene.now))


def _queue_stands(scene: Scene) -> Verdict | None:
    window = scene.window
    if window.requests is None or window.requests_moved_at is None or not any(window.requests):
        return None
    if any(beat.age_s is not None for beat in window.beats.values()):
        return None  # the heartbeat tells, and it is young
    stands = scene.now - window.requests_moved_at
    log_quiet = scene.log_quiet_s
    if stands < QUEUE_S or log_quiet is None or log_quiet < QUEUE_S or _works(scene) or not _idle_or_spinning(scene):
        return None
    running, queued = (count or 0 for count in window.requests)
    return Verdict(
        scene.now,
        verdict="hung-serving",
        confidence="medium",
        summary=f"{running} running and {queued} queued requests have made no progress for {words.span(stands)}, "
        "and nothing moves.",
        blames=_elsewhere(scene) or tuple(window.ranks),
        evidence=(
            Evidence("requests", f"{running} running, {queued} queued, unchanged for {words.span(stands)}"),
            Evidence("log", f"quiet for {words.span(log_quiet)}"),
            *_cpu_evidence(scene),
            *_stack_evidence(scene),
        ),
        unknown=() if scene.stacks else ("where it is stuck: a stack dump would show it",),
        next=(Next("dump", (), "see where each rank is, before anything is restarted"),),
    )


def _works(scene: Scene) -> bool:
    """A GPU computes, a compiler runs, or a rank burns CPU that no spinning GPU explains."""
    if scene.moving("gpu", "compiler", "gpu-memory"):
        return True
    return any(_busy(scene, track) for track in scene.window.ranks.values())


def _busy(scene: Scene, track: ProcessTrack) -> bool:
    if track.below_cpu.moved_at is not None and scene.now - track.below_cpu.moved_at < STALL_S:
        return True
    gpu = None if track.process.gpu is None else scene.window.gpus.get(track.process.gpu)
    if gpu is not None and gpu.spin_since is not None and scene.now - gpu.spin_since >= STALL_S:
        return False
    quiet = track.cpu.quiet_s(scene.now)
    return track.cpu.moved_at is not None and quiet is not None and quiet < STALL_S


def _idle_ranks(scene: Scene) -> tuple[str, ...]:
    found = []
    for rank, track in scene.window.ranks.items():
        quiet = track.cpu.quiet_s(scene.now)
        if quiet is not None and quiet >= STALL_S:
            found.append(rank)
    return tuple(found)


def _idle_or_spinning(scene: Scene) -> bool:
    return bool(_idle_ranks(scene)) or bool(scene.spinning)


def _elsewhere(scene: Scene) -> tuple[str, ...]:
    """The ranks whose stacks are not where the others wait."""
    if scene.stacks is None or len(scene.stacks.groups) < 2:
        return ()
    return scene.stacks.groups[0].ranks


def _beat_evidence(scene: Scene) -> list[Evidence]:
    return [
        Evidence(f"heartbeat of {rank or 'the server'}", f"{words.span(_age(scene, beat))} old")
        for rank, beat in sorted(scene.window.beats.items())
        if beat.age_s is not None
    ][:8]


def _cpu_evidence(scene: Scene) -> list[Evidence]:
    out = []
    for rank, track in list(scene.window.ranks.items())[:8]:
        if track.cpu.known(scene.now) and track.cpu.value is not None:
            out.append(Evidence(f"CPU of {rank}", f"{track.cpu.value:.0f} %"))
    return out


def _stack_evidence(scene: Scene) -> list[Evidence]:
    if scene.stacks is None:
        return []
    return [
        Evidence(f"stack of {group.label}", f"{place(group)} (waits for: {waits(group) or 'not known'})")
        for group in scene.stacks.groups[:4]
    ]


def ready(scene: Scene) -> Verdict | None:
    model, now = scene.model, scene.now
    if scene.phase != "ready":
        return None
    if model.launcher is None:
        return None if model.processes is not None else _said_ready(now)
    http = model.http
    if model.run is not None and model.run.node_rank > 0:
        return Verdict(now, verdict="ready", confidence="medium", summary="This node's ranks are up; node 0 serves.")
    if http is None or not http.listening:
        return Verdict(
            now,
            verdict="starting",
            confidence="medium",
            summary="The ready line is printed; the port does not answer yet.",
            evidence=(Evidence("port", "closed"),),
        )
    evidence = [Evidence("ready line", "printed"), Evidence(f"port {http.port}", f"held by pid {http.owner_pid}")]
    if http.ready is not None:
        evidence.append(Evidence("/ready", str(http.ready)))
    elif http.model_info is not None:
        evidence.append(Evidence("/model_info", str(http.model_info)))
    alive = _loop_turns(scene)
    if alive:
        evidence.append(Evidence("heartbeat", "the event loop of every replica turns"))
    confident = http.ours is True and (200 in (http.ready, http.model_info) or alive)
    requests = _requests(scene)
    if requests is not None:
        running, queued = requests
        summary = f"Serving on port {http.port}: {running} running, {queued} queued."
    else:
        summary = f"Ready on port {http.port}."
    return Verdict(
        now,
        verdict="ready" if requests is None else "serving",
        confidence="high" if confident else "medium",
        summary=summary,
        evidence=tuple(evidence),
        unknown=() if http.ours is True else ("whether the port is this run's: its owner cannot be read",),
    )


def _loop_turns(scene: Scene) -> bool:
    beats = [beat for beat in scene.window.beats.values() if beat.age_s is not None]
    return bool(beats) and all(_age(scene, beat) < FRESH_S for beat in beats)


def _requests(scene: Scene) -> tuple[int, int] | None:
    """Running and queued; None where there are none, or nobody tells."""
    if scene.window.requests is None or not any(scene.window.requests):
        return None
    running, queued = scene.window.requests
    return running or 0, queued or 0


def _said_ready(now: float) -> Verdict:
    return Verdict(
        now,
        verdict="unknown",
        confidence="low",
        summary="The log says ready; no process of this run was looked at.",
        unknown=("whether the server still lives",),
    )
