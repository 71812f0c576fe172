"""What happened in a recording, and when: the marks on its time line."""

from __future__ import annotations

from dataclasses import dataclass

from launchmon.replay.recorded import Recorded
from launchmon_agent.events import Action, Event, Exit, Kernel, LogError, Mark, Run, Stacks, Verdict
from launchmon_agent.model import RunModel

MOST_ERRORS = 200
"""Errors that get a mark: a server that fails at each request fills its time line with the first of them."""

CALM = frozenset({"starting", "reading", "downloading", "compiling", "computing", "ready", "serving", "stopped"})
"""Kinds of verdict that name no trouble."""


@dataclass(frozen=True)
class Moment:
    at: float  # the target's time at which it was known
    position: int  # in the recording, right after it
    kind: str  # phase | verdict | trouble (a verdict that names some) | dump | exit | error | action
    text: str  # a few words


def moments(recorded: Recorded) -> list[Moment]:
    """In order of time."""
    model, out, errors = RunModel(), [], 0
    phase: str | None = None
    for place in recorded.lasting():
        event = recorded.event(place)
        if event is None:
            continue
        known = model.verdict
        first = not isinstance(event, LogError) or all(event.offset != one.offset for one in model.errors)
        begun = isinstance(event, Action) and event.id not in model.actions
        model.fold(event)
        said: tuple[str, str] | None = None
        if isinstance(event, (Mark, Run)):
            reached = model.phases.run_phase()
            if reached != phase:
                phase, said = reached, ("phase", reached.replace("-", " "))
        elif isinstance(event, LogError):
            if first and event.severity in ("fatal", "error") and errors < MOST_ERRORS:
                errors, said = errors + 1, ("error", f"{event.rank}: {event.detail or event.text}")
        elif isinstance(event, Verdict):
            if known is None or known.verdict != event.verdict:
                said = ("verdict" if event.verdict in CALM else "trouble", event.verdict)
        elif not isinstance(event, Action) or begun:
            said = _said(event)
        if said is not None:
            out.append(Moment(recorded.time(place + 1), place + 1, *said))
    return out


def _said(event: Event) -> tuple[str, str] | None:
    match event:
        case Stacks():
            return "dump", "stacks read" + (" by themselves" if event.automatic else "")
        case Exit():
            status = "" if event.code is None else f" with {event.code}"
            return "exit", f"{event.rank or event.role} ended{status}"
        case Kernel():
            return "error", f"kernel: {event.text}"
        case Action():
            return "action", event.action
    return None
