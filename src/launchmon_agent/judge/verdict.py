"""What is going on, from the state of a run. Pure: the same model and time give the same verdict.

The first rule that decides wins.
"""

from __future__ import annotations

import signal

from launchmon_agent.events import Evidence, Exit, LogError, Next, Process, Verdict
from launchmon_agent.model import RunModel

ASKED_TO_STOP = (-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT)
"""Exit codes of a launcher that was told to go: SGLang's default action on SIGTERM during the launch."""

RANK_ROLES = ("scheduler", "dp-controller", "detokenizer", "spawning")
PATIENCE_S = 0.8


def judge(model: RunModel, now: float) -> Verdict:
    """The verdict at ``now`` (seconds since the epoch, the target's clock)."""
    for rule in (_ended, _being_stopped, _rank_died, _failing, _port_of_another, _ready, _starting):
        verdict = rule(model, now)
        if verdict is not None:
            return verdict
    return Verdict(
        now,
        verdict="unknown",
        summary="Nothing is known of this run yet.",
        unknown=("no process and no log line was seen",),
    )


def _ended(model: RunModel, now: float) -> Verdict | None:
    """The launcher is gone."""
    exit_ = model.launcher_exit
    if exit_ is None:
        return None
    code = exit_.code
    failure = model.first_failure
    killed_by_us = _kill_begun(model)
    asked = killed_by_us or code in ASKED_TO_STOP or bool(model.marks("stop"))
    if asked or (code == 0 and failure is None):
        return Verdict(
            now,
            verdict="stopped",
            confidence="high",
            summary="Stopped by launchmon." if killed_by_us else f"The server has ended: {exit_words(exit_)}.",
            evidence=(Evidence("launcher", exit_words(exit_)),),
        )
    if failure is None and code is None and model.phases.run_phase() == "ready":
        return Verdict(
            now,
            verdict="stopped",
            confidence="medium",
            summary="The server has ended without an error in its log.",
            evidence=(Evidence("launcher", exit_words(exit_)),),
            unknown=("its exit status: launchmon did not start it",),
        )
    return _crashed(model, now, failure, _first_gone(model) or exit_)


def _first_gone(model: RunModel) -> Exit | None:
    """The process that ended before all others: the cause, where the log names none. None where several tie."""
    exits = sorted(model.exits, key=lambda gone: gone.at)
    if len(exits) > 1 and exits[0].at == exits[1].at:
        return None
    return exits[0] if exits else None


def _kill_begun(model: RunModel) -> bool:
    return any(step.action == "kill" for steps in model.actions.values() for step in steps)


def _being_stopped(model: RunModel, now: float) -> Verdict | None:
    """Its processes end one by one, which is no crash. SGLang itself says when it was told to go (mark "stop")."""
    by_us = _kill_begun(model)
    if not by_us and not model.marks("stop"):
        return None
    return Verdict(
        now,
        verdict="stopped",
        confidence="medium",
        summary="Being stopped by launchmon." if by_us else "It was told to stop, and is ending.",
    )


def _rank_died(model: RunModel, now: float) -> Verdict | None:
    """A rank ended while the launcher lives: SGLang itself may take long to notice, or never.

    In an orderly end the launcher follows its ranks at once, hence the moment of patience.
    """
    dead = [exit_ for exit_ in model.exits if exit_.role in RANK_ROLES]
    if not dead:
        return None
    first = min(dead, key=lambda exit_: exit_.at)
    if model.launcher is not None and now - first.at < PATIENCE_S and model.first_failure is None:
        return None
    return _crashed(model, now, model.first_failure, first)


def _failing(model: RunModel, now: float) -> Verdict | None:
    """A fatal line, and the processes are still on their way down."""
    failure = model.first_failure
    if failure is None or failure.severity != "fatal":
        return None
    return _crashed(model, now, failure, None)


def _crashed(model: RunModel, now: float, failure: LogError | None, exit_: Exit | None) -> Verdict:
    phase = model.phases.run_phase()
    evidence = []
    blames: tuple[str, ...] = ()
    if failure is not None:
        what = failure.detail or failure.text
        summary = f"{_who(failure.rank)} failed in {phase}: {what}"
        evidence.append(Evidence("first error", failure.text))
        if failure.detail:
            evidence.append(Evidence("its last line", failure.detail))
        blames = (failure.rank,)
    elif exit_ is not None:
        who = exit_.rank or exit_.role
        summary = f"{_who(who)} ended in {phase} without an error of its own in the log: {exit_words(exit_)}."
        blames = (who,)
    else:
        summary = f"The launch failed in {phase}."
    evidence.extend(Evidence(f"{gone.rank or gone.role} (pid {gone.pid})", exit_words(gone)) for gone in model.exits)
    return Verdict(
        now,
        verdict="crashed",
        confidence="high" if failure is not None else "medium",
        summary=summary,
        blames=blames,
        evidence=tuple(evidence[:12]),
    )


def _port_of_another(model: RunModel, now: float) -> Verdict | None:
    """The ready line alone can lie: the warm-up of a server that lost its port talks to the server that has it."""
    if model.phases.run_phase() != "ready" or model.http is None or model.http.ours is not False:
        return None
    http = model.http
    return Verdict(
        now,
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


def _ready(model: RunModel, now: float) -> Verdict | None:
    if model.phases.run_phase() != "ready":
        return None
    if model.launcher is None:
        return None if model.processes is not None else _said_ready(now)
    http = model.http
    worker_node = model.run is not None and model.run.node_rank > 0
    if worker_node:
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
    confident = http.ours is True and 200 in (http.ready, http.model_info)
    return Verdict(
        now,
        verdict="ready",
        confidence="high" if confident else "medium",
        summary=f"Ready on port {http.port}.",
        evidence=tuple(evidence),
        unknown=() if http.ours is True else ("whether the port is this run's: its owner cannot be read",),
    )


def _said_ready(now: float) -> Verdict:
    return Verdict(
        now,
        verdict="unknown",
        confidence="low",
        summary="The log says ready; no process of this run was looked at.",
        unknown=("whether the server still lives",),
    )


def _starting(model: RunModel, now: float) -> Verdict | None:
    if model.launcher is None:
        if model.processes is None or model.run is None or model.run.pid is None:
            return None
        return Verdict(
            now,
            verdict="stopped",
            confidence="medium",
            summary="No process of this run is left.",
            unknown=("how it ended: nobody was watching",),
        )
    phase = model.phases.run_phase()
    rows = model.rank_rows()
    alive = sum(1 for row in rows if row.pid)
    return Verdict(
        now,
        verdict="starting",
        confidence="medium",
        summary=f"Starting: {phase}, {alive} of {len(rows)} ranks alive{_slowest(model, rows)}.",
        evidence=(Evidence("ranks alive", f"{alive} of {len(rows)}"), *_prepared(model, phase)),
    )


def _prepared(model: RunModel, phase: str) -> list[Evidence]:
    """What was set for a launched run is said while it starts."""
    if model.run is None or phase not in ("start", "spawn"):
        return []
    return [Evidence("prepared", text) for text in model.run.preparations]


def _slowest(model: RunModel, rows: list[Process]) -> str:
    phase = model.phases.run_phase()
    behind = []
    for row in rows:
        span = model.phases.current(row.rank or "")
        if span is not None and span.phase == phase:
            behind.append(row.rank or "")
    return f", waiting for {', '.join(behind[:4])}" if behind and len(behind) < len(rows) else ""


def _who(rank: str) -> str:
    return rank[:1].upper() + rank[1:]


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
