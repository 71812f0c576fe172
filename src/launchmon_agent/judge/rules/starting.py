"""A launch that gets on, as far as can be seen."""

from __future__ import annotations

from launchmon_agent.events import Evidence, Verdict
from launchmon_agent.judge.scene import Scene


def starting(scene: Scene) -> Verdict | None:
    model = scene.model
    if model.launcher is None:
        if model.processes is None or model.run is None or model.run.pid is None:
            return None
        return Verdict(
            scene.now,
            verdict="stopped",
            confidence="medium",
            summary="No process of this run is left.",
            unknown=("how it ended: nobody was watching",),
        )
    alive = len(scene.alive)
    return Verdict(
        scene.now,
        verdict="starting",
        confidence="medium",
        summary=f"Starting: {scene.phase}, {alive} of {len(scene.rows)} ranks alive{_slowest(scene)}.",
        evidence=(Evidence("ranks alive", f"{alive} of {len(scene.rows)}"), *_prepared(scene)),
    )


def _prepared(scene: Scene) -> list[Evidence]:
    """What was set for a launched run is said while it starts."""
    if scene.model.run is None or scene.phase not in ("start", "spawn"):
        return []
    return [Evidence("prepared", text) for text in scene.model.run.preparations]


def _slowest(scene: Scene) -> str:
    behind = []
    for row in scene.rows:
        span = scene.model.phases.current(row.rank or "")
        if span is not None and span.phase == scene.phase:
            behind.append(row.rank or "")
    return f", waiting for {', '.join(behind[:4])}" if behind and len(behind) < len(scene.rows) else ""
