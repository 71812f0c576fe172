"""What belongs to a verdict whatever rule gave it: usual times, the clock that ends the wait, remedies. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from launchmon_agent.events import Countdown, Evidence, Next, Verdict
from launchmon_agent.judge import words
from launchmon_agent.judge.baselines import expectation
from launchmon_agent.judge.circumstances import beside_stall
from launchmon_agent.judge.clocks import Clock, Wait, clocks, clocks_of_errors
from launchmon_agent.judge.memory_sentence import memory_sentence
from launchmon_agent.judge.remedies import context_of, remedies
from launchmon_agent.judge.rules.serving import stopped_ranks
from launchmon_agent.judge.scene import Scene
from launchmon_agent.judge.supported import correction, feasible, refused_flags, supports

UNFINISHED = frozenset(
    ("reading", "downloading", "compiling", "computing", "waiting-peer", "waiting-lock", "rank-missing", "one-behind")
) | frozenset(("deadlock-silent", "deadlock-spinning", "deadlock-divergent", "http-wait", "hung-serving", "unknown"))
"""Kinds that a timeout somewhere may end."""

CURABLE = UNFINISHED - {"reading", "downloading", "compiling", "computing", "unknown"} | {"crashed"}
"""Kinds for which something can be changed. What works needs patience, which its rule says."""

STILL = CURABLE - {"crashed"} | {"unknown"}
"""Kinds in which nothing moves."""

STUCK = frozenset({"deadlock-silent", "deadlock-spinning", "deadlock-divergent", "one-behind", "hung-serving"})

MOST_NEXT = 6


def complete(scene: Scene, verdict: Verdict) -> Verdict:
    """The verdict with what surrounds it."""
    evidence = verdict.evidence
    running: tuple[Clock, ...] = ()
    if verdict.verdict in UNFINISHED:
        running = _clocks(scene)
        evidence = (*evidence, *_usual(scene), *_next_to_end(running), *_memory(scene, verdict))
    elif verdict.verdict == "crashed" and scene.model.launcher is not None:
        running = tuple(clock for clock in _clocks(scene) if clock.id in clocks_of_errors())
        evidence = (*evidence, *_next_to_end(running))
    if verdict.verdict in STILL:
        evidence = (*evidence, *beside_stall(scene, verdict.verdict))
    steps = feasible(verdict.next, scene.model.installed)
    if verdict.verdict in CURABLE and not set(verdict.blames) & set(stopped_ranks(scene)):
        steps = _merged(_remedies(scene, verdict), steps)
    if verdict.verdict == "crashed":
        steps = _corrected(scene, steps)
    return dataclasses.replace(
        verdict,
        evidence=evidence,
        next=steps,
        clocks=tuple(Countdown(clock.name, clock.ends_in_s, clock.effect) for clock in running),
        quiet_s=scene.quiet_s if verdict.verdict in STILL else None,
    )


def _usual(scene: Scene) -> list[Evidence]:
    """How long this phase takes otherwise."""
    begins = [span.begin for span in scene.model.phases.spans() if span.rail_phase == scene.phase and span.end is None]
    usual = expectation(scene.phase, scene.window.expected)
    if usual is None or not begins:
        return []
    return [Evidence(scene.phase, f"for {words.span(scene.now - min(begins))} ({usual.words})")]


def _clocks(scene: Scene) -> tuple[Clock, ...]:
    """Those that run, the next to end first."""
    functions = _functions(scene)
    wait = Wait(functions[-1], scene.now - scene.quiet_s) if functions else None
    return clocks(scene.model, scene.now, wait=wait, work_since=_work_since(scene))


def _next_to_end(running: Sequence[Clock]) -> list[Evidence]:
    if not running:
        return []
    clock = running[0]
    when = words.span(clock.ends_in_s)
    if clock.latest_s - clock.ends_in_s >= 1.0:
        when += f" to {words.span(clock.latest_s)}"
    return [Evidence("ends by itself", f"{clock.name} in {when}: {clock.effect}")]


def _work_since(scene: Scene) -> float | None:
    """Since when a request has been worked on without anything coming of it: SGLang's watchdog counts only then."""
    window = scene.window
    if scene.phase == "warm-up":
        return window.batch_at
    running = window.requests[0] if window.requests is not None else None
    return window.requests_moved_at if scene.phase == "ready" and running else None


def _memory(scene: Scene, verdict: Verdict) -> list[Evidence]:
    """Of a run that is stuck it is always told: whoever looks at one looks at its memory."""
    sample = scene.model.processes
    always = verdict.verdict in STUCK
    sentence = None if sample is None else memory_sentence(sample.processes, scene.host, always=always)
    return [] if sentence is None else [Evidence("memory", sentence)]


def _functions(scene: Scene) -> list[tuple[str, ...]]:
    """Of each group of ranks; the largest, whose wait a clock may end, last."""
    if scene.stacks is None:
        return []
    groups = sorted(scene.stacks.groups, key=lambda group: len(group.ranks))
    return [tuple(frame.function for frame in group.shown) for group in groups]


def _remedies(scene: Scene, verdict: Verdict) -> tuple[Next, ...]:
    marks = [mark.values["lock"] for mark in scene.model.marks("jit") if mark.values.get("lock")]
    context = context_of(scene.model, functions=_functions(scene), lock=marks[-1] if marks else None)
    return remedies(verdict.verdict, context, supports(scene.model.installed))


def _corrected(scene: Scene, steps: tuple[Next, ...]) -> tuple[Next, ...]:
    """With the command put right first, where it names flags that the installed SGLang refused."""
    failure, run, known = scene.model.first_failure, scene.model.run, scene.model.installed
    if failure is None or run is None or known is None:
        return steps
    names = refused_flags(f"{failure.text}\n{failure.detail or ''}", known)
    better = correction(names, known, run.argv) if names else None
    if better is None:
        return steps
    return (better, *(step for step in steps if step.change or step.do != "relaunch"))[:MOST_NEXT]


def _merged(first: Sequence[Next], then: Sequence[Next]) -> tuple[Next, ...]:
    """What is to be done at once, then the changes of ``first``, then of ``then`` what those do not offer already."""
    offered = {_name(part) for step in first for part in step.change}
    at_once = [step for step in then if step.do != "relaunch"]
    more = []
    for step in then:
        change = tuple(part for part in step.change if _name(part) not in offered)
        if step.do == "relaunch" and (change or not step.change):
            more.append(dataclasses.replace(step, change=change))
    out: dict[tuple[str, tuple[str, ...], str], Next] = {}
    for step in (*at_once, *first, *more):
        out.setdefault((step.do, step.change, "" if step.change or step.do != "relaunch" else step.why), step)
    return tuple(out.values())[:MOST_NEXT]


def _name(part: str) -> str:
    """Of a flag or variable, without its value."""
    return part.split("=")[0].split(" ")[0]
