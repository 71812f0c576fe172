"""It has ended, is ending, or has failed."""

from __future__ import annotations

import signal

from launchmon_agent.events import Evidence, Exit, Next, Verdict
from launchmon_agent.judge import words
from launchmon_agent.judge.cause import RANK_ROLES, Cause, first_cause, first_gone, is_gpu_trouble, rank_of_gpu
from launchmon_agent.judge.circumstances import beside_failure, stranger_evidence
from launchmon_agent.judge.failures import failure_of
from launchmon_agent.judge.scene import STALL_S, Scene
from launchmon_agent.judge.supported import nearest_words, refused_flags
from launchmon_agent.model import RunModel

ASKED_TO_STOP = (-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT)
"""Exit codes of a launcher that was told to go: SGLang's default action on SIGTERM during the launch."""

PATIENCE_S = 0.8
"""In an orderly end the launcher follows its ranks at once."""

SHM_FULL, HOST_FULL = 0.97, 0.03
"""Share of /dev/shm that is used, and of the host's memory that is available."""

NOTICED_S = 10.0
"""SGLang notices the end of a rank within this time, if at all."""


def ended(scene: Scene) -> Verdict | None:
    """The launcher is gone."""
    model, now = scene.model, scene.now
    exit_ = model.launcher_exit
    if exit_ is None:
        return None
    code = exit_.code
    failure = model.first_failure
    killed_by_us = kill_begun(model)
    asked = killed_by_us or code in ASKED_TO_STOP or bool(model.marks("stop"))
    if asked or (code == 0 and failure is None):
        return Verdict(
            now,
            verdict="stopped",
            confidence="high",
            summary="Stopped by launchmon." if killed_by_us else f"The server has ended: {exit_words(exit_)}.",
            evidence=(Evidence("launcher", exit_words(exit_)),),
        )
    if failure is None and code is None and scene.phase == "ready":
        return Verdict(
            now,
            verdict="stopped",
            confidence="medium",
            summary="The server has ended without an error in its log.",
            evidence=(Evidence("launcher", exit_words(exit_)),),
            unknown=("its exit status: launchmon did not start it",),
        )
    return crashed(scene, first_cause(model) or Cause(exit_.role or "launcher", exit=exit_))


def kill_begun(model: RunModel) -> bool:
    return any(step.action == "kill" for steps in model.actions.values() for step in steps)


def being_stopped(scene: Scene) -> Verdict | None:
    """Its processes end one by one, which is no crash. SGLang itself says when it was told to go (mark "stop")."""
    by_us = kill_begun(scene.model)
    if not by_us and not scene.model.marks("stop"):
        return None
    return Verdict(
        scene.now,
        verdict="stopped",
        confidence="medium",
        summary="Being stopped by launchmon." if by_us else "It was told to stop, and is ending.",
    )


def rank_died(scene: Scene) -> Verdict | None:
    """A rank ended while the launcher lives: SGLang itself may take long to notice, or never."""
    model = scene.model
    dead = [exit_ for exit_ in model.exits if exit_.role in RANK_ROLES]
    if not dead:
        return None
    first = min(dead, key=lambda exit_: exit_.at)
    looked = model.processes is not None and model.processes.at > first.at  # at the launcher, since that end
    waits = not looked or scene.now - first.at < PATIENCE_S
    if model.launcher is not None and waits and model.first_failure is None:
        return None
    cause = first_cause(model)
    if first_gone(model) is None and model.first_failure is None:
        cause = Cause(first.rank or first.role, exit=first)
    return None if cause is None else crashed(scene, cause)


def failing(scene: Scene) -> Verdict | None:
    """A fatal line, and the processes are still on their way down."""
    failure = scene.model.first_failure
    if failure is None or failure.severity != "fatal":
        return None
    cause = first_cause(scene.model)
    return None if cause is None else crashed(scene, cause)


def gpu_failed(scene: Scene) -> Verdict | None:
    """The kernel reports a broken GPU of this run, and the run stands still: nothing will come after that."""
    if scene.quiet_s < STALL_S:
        return None
    for message in scene.model.kernel:
        rank = rank_of_gpu(scene.model, message)
        if is_gpu_trouble(message) and rank is not None:
            return crashed(scene, Cause(rank, kernel=message))
    return None


def crashed(scene: Scene, cause: Cause) -> Verdict:
    model, phase = scene.model, scene.phase
    evidence: list[Evidence] = []
    who = words.who(cause.who)
    steps: list[Next] = []
    if cause.kernel is not None:
        summary = _kernel_words(cause, who, phase)
        evidence.append(Evidence("kernel", cause.kernel.text))
    elif cause.error is not None:
        victim = cause.error.severity == "consequence"
        failed = f"{words.who(cause.error.rank)} gave up" if victim else f"{who} failed"
        summary = f"{failed} in {phase}: {cause.error.detail or cause.error.text}"
    elif cause.exit is not None:
        summary = f"{who} ended in {phase} without an error of its own in the log: {exit_words(cause.exit)}."
    else:
        summary = f"The launch failed in {phase}."
    if cause.error is not None:
        evidence.append(Evidence("first error", cause.error.text))
        if cause.error.detail:
            evidence.append(Evidence("its last line", cause.error.detail))
        texts = [text for text in (cause.error.detail, cause.error.text) if text]
        texts += [text for error in model.errors for text in (error.detail, error.text) if text]
        row = failure_of(texts, phase)
        if row is not None:
            summary = f"{summary.rstrip('.')}. {row.says}"
            steps += [] if row.next is None else [row.next]
            beside, more, first = beside_failure(scene, row.id, texts)
            summary = f"{summary} {beside}" if beside else summary
            evidence += more
            steps = first + steps
        refused = refused_flags("\n".join(texts), model.installed)
        if refused and model.installed is not None:
            summary = f"{summary} {nearest_words(refused, model.installed)}"
    elif cause.exit is not None and cause.kernel is None:
        summary += _death_words(scene, cause.exit)
    waiting = _unnoticed(scene, cause)
    if waiting:
        summary += f" {waiting}"
        steps.insert(0, Next("kill", (), "the launcher has not noticed; the others would wait for ever", "issue"))
    evidence += stranger_evidence(scene)
    evidence += [Evidence(f"{gone.rank or gone.role} (pid {gone.pid})", exit_words(gone)) for gone in model.exits]
    return Verdict(
        scene.now,
        verdict="crashed",
        confidence="high" if cause.error is not None or cause.kernel is not None else "medium",
        summary=summary,
        blames=(cause.who,),
        evidence=tuple(evidence[:12]),
        next=tuple(steps),
    )


def _kernel_words(cause: Cause, who: str, phase: str) -> str:
    assert cause.kernel is not None
    if cause.kernel.what == "oom-kill":
        where = "its control group" if "cgroup" in cause.kernel.text.lower() else "the host"
        return f"{who} was killed by the kernel in {phase}: {where} ran out of memory."
    if cause.kernel.what == "segfault":
        return f"{who} died of a segmentation fault in {phase}: a fault in native code."
    return f"The GPU of {who} failed in {phase}: the kernel reports {_short(cause.kernel.text)}."


def _short(text: str) -> str:
    start = text.find("Xid")
    return text[max(0, start) :][:100].rstrip(".")


def _death_words(scene: Scene, exit_: Exit) -> str:
    """What a silent death may mean, from the state of the machine around it."""
    window, host = scene.window, scene.host
    killed = exit_.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    if killed and window.oom_kills.moved_at is not None and abs(window.oom_kills.moved_at - exit_.at) < NOTICED_S:
        return " Its control group ran out of memory: the count of OOM kills went up."
    if host is None:
        return ""
    total, used = host.shm_total, host.shm_used
    if exit_.code in (-signal.SIGBUS, 128 + signal.SIGBUS) and total and used is not None and used >= SHM_FULL * total:
        return f" /dev/shm is full: {words.size(used)} of {words.size(total)}."
    total, available = host.memory_total, host.memory_available
    if killed and total and available is not None and available < HOST_FULL * total:
        return f" The host was out of memory: {words.size(available)} were available."
    return ""


def _unnoticed(scene: Scene, cause: Cause) -> str:
    """The others wait for a dead rank, and the launcher does nothing about it."""
    gone = cause.exit
    if gone is None or scene.model.launcher is None or scene.now - gone.at < NOTICED_S or not scene.alive:
        return ""
    return (
        f"{len(scene.alive)} of {len(scene.rows)} ranks still live and wait for it; "
        f"the launcher has not noticed in {words.span(scene.now - gone.at)}."
    )


def exit_words(exit_: Exit) -> str:
    """An exit in words: "exit status 3", "killed by SIGKILL"."""
    if exit_.code is None:
        return "gone, exit status not known"
    number = -exit_.code if exit_.code < 0 else exit_.code - 128 if exit_.code > 128 else 0
    if number:
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            pass
    return f"exit status {exit_.code}"
