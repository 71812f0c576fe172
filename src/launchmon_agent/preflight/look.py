"""Looks at everything at once, and waits a second at most for what looks back."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from launchmon_agent.preflight import facts
from launchmon_agent.preflight.checks import findings
from launchmon_agent.preflight.facts import Facts
from launchmon_agent.preflight.finding import Finding
from launchmon_agent.preflight.start import Start
from launchmon_agent.runs.checks import runs_here
from launchmon_agent.runs.launch import Plan
from launchmon_agent.sensors.orphans import orphans
from launchmon_agent.sglang.command import parse

PATIENCE_S = 1.0


def look(plan: Plan, clock: Callable[[], float] = time.time) -> tuple[Finding, ...]:
    """All findings of a start that ``prepare`` has checked, errors first. Never raises; ends within PATIENCE_S."""
    command = parse(plan.argv)
    if not command.is_sglang:
        return ()
    if not runs_here(command):
        return findings(Start(command, {}, Facts(here=False)))
    now = clock()
    looks: dict[str, Callable[[], Any]] = {
        "model": lambda: facts.model(plan),
        "orphans": orphans,
        "locks": lambda: facts.locks(plan.env, now),
        "ptrace": facts.ptrace,
    }
    if not command.simulated:
        looks["gpus"] = lambda: facts.gpus(now)
    seen = at_once(looks, PATIENCE_S)
    shm = facts.shm()
    known = Facts(
        shm_total=None if shm is None else shm[0],
        shm_free=None if shm is None else shm[1],
        interfaces=facts.interfaces(),
        limits=facts.limits(),
        py_spy=facts.py_spy(plan),
        host_name_is_loopback=facts.host_name_is_loopback(),
        late=tuple(name for name in looks if name not in seen),
    )
    return findings(Start(command, plan.env, dataclasses.replace(known, **seen)))


def at_once(looks: dict[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """What each look gives; one that fails gives None, one that is late is missing.

    The threads are daemons: one that hangs in a dead file system keeps nobody from ending.
    """
    seen: dict[str, Any] = {}
    lock = threading.Lock()

    def take(name: str, one: Callable[[], Any]) -> None:
        try:
            found = one()
        except Exception:  # noqa: BLE001 - preflight must never keep a launch from starting
            found = None
        with lock:
            seen[name] = found

    threads = [
        threading.Thread(target=take, args=item, name=f"preflight-{item[0]}", daemon=True) for item in looks.items()
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    with lock:
        return dict(seen)
