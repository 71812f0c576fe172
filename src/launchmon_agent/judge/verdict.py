"""What is going on, from the state of a run and the evidence of the last seconds.

Pure: the same model, window and time give the same verdict. The first rule that decides wins; ``docs/verdicts.md`` says
what each of them rests on.
"""

from __future__ import annotations

from launchmon_agent.events import Verdict
from launchmon_agent.judge.rules import ended, serving, starting, stuck, waiting, working
from launchmon_agent.judge.scene import STALL_S, Scene
from launchmon_agent.judge.surroundings import complete
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.model import RunModel

RULES = (
    ended.ended,
    ended.being_stopped,
    ended.rank_died,
    ended.failing,
    ended.gpu_failed,
    serving.port_of_another,
    serving.hung,
    serving.ready,
    waiting.rank_missing,
    waiting.stopped,
    working.compiling,
    working.downloading,
    working.reading,
    working.computing,
    waiting.waiting_lock,
    stuck.behind_by_counts,
    waiting.waiting_peer,
    stuck.one_behind,
    stuck.deadlock,
    stuck.http_wait,
    stuck.unknown,
    starting.starting,
)
"""In order. Whatever moves comes before whatever stands still: one thing that moves makes it slow."""


def judge(model: RunModel, window: EvidenceWindow, now: float) -> Verdict:
    """The verdict at ``now`` (seconds since the epoch, the target's clock)."""
    scene = Scene(model, window, now)
    for rule in RULES:
        verdict = rule(scene)
        if verdict is not None:
            return complete(scene, verdict)
    return Verdict(
        now,
        verdict="unknown",
        summary="Nothing is known of this run yet.",
        unknown=("no process and no log line was seen",),
    )


def stall(model: RunModel, window: EvidenceWindow, now: float) -> bool:
    """Whether nothing has moved for :data:`STALL_S` while work is outstanding: the stacks are worth a look."""
    if model.launcher is None or model.launcher_exit is not None or ended.kill_begun(model) or model.marks("stop"):
        return False
    scene = Scene(model, window, now)
    if scene.phase == "ready":
        return serving.suspicious(scene)
    return bool(scene.alive) and scene.enough_known and scene.quiet_s >= STALL_S
