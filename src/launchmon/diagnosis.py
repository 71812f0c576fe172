"""A run's state as the one object that ``diagnose --json`` prints. Pure.

Keys are stable (schema 1); a value that is not known is null, never zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from launchmon_agent.events import Gpu, Process, Stacks
from launchmon_agent.judge.baselines import expectation
from launchmon_agent.judge.cluster import Node
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.secrets import redact_argv
from launchmon_agent.stacks.model import frames_of, main_thread, where
from launchmon_agent.wire import Hello

SCHEMA = 1

RECENT_S = 60.0
"""Age up to which a dump names what a process does."""


def diagnosis(
    model: RunModel, hello: Hello | None, target: str, link: str | None = None, nodes: Sequence[Node] = ()
) -> dict[str, Any]:
    """Raises nothing: a model that has seen no event gives an object full of nulls.

    ``link`` is its state; ``nodes`` are those of a run on several targets, the first of which is ``target``.
    """
    number = None if nodes or model.run is None else model.run.node_rank
    return {
        "schema": SCHEMA,
        "at": _utc(model.now),
        "target": _target(model, hello, nodes[0].label if nodes else target),
        "targets": [_of_node(node) for node in nodes] or [_only(number, hello, target, link)],
        "run": _run(model),
        "phase": _phase(model),
        "phases": [
            {
                "name": span.phase,
                "rank": span.rank,
                "begin_s": _since_start(model, span.begin),
                "end_s": _since_start(model, span.end),
                "model": span.model,
            }
            for span in model.phases.spans()
        ],
        "ranks": [_rank(model, row, number) for row in model.rank_rows()],
        "gpus": [_gpu(gpu, number) for gpu in (model.gpus.gpus if model.gpus else ())],
        "clocks": _clocks(model),
        "verdict": _verdict(model),
    }


def _utc(at: float) -> str | None:
    if not at:
        return None
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def _of_node(node: Node) -> dict[str, Any]:
    return {
        "node": node.number,
        "name": node.label,
        "hostname": node.hostname,
        "link": node.link,
        "problem": node.problem,
        "clock_offset_s": round(node.offset_s, 3),
    }


def _only(number: int | None, hello: Hello | None, target: str, link: str | None) -> dict[str, Any]:
    """Of a run on one target, whose clock is the one that all times are by."""
    return {
        "node": number,
        "name": target,
        "hostname": hello.hostname if hello else None,
        "link": link,
        "problem": None,
        "clock_offset_s": 0.0,
    }


def _target(model: RunModel, hello: Hello | None, target: str) -> dict[str, Any]:
    host = model.host
    gpus = model.gpus
    return {
        "name": target,
        "hostname": hello.hostname if hello else None,
        "user": hello.user if hello else None,
        "python": hello.python if hello else None,
        "driver": gpus.driver if gpus else None,
        "gpu_source": gpus.source if gpus else None,
        "gpu_error": gpus.error if gpus else None,
        "memory_total": host.memory_total if host else None,
        "memory_available": host.memory_available if host else None,
        "shm_total": host.shm_total if host else None,
        "shm_used": host.shm_used if host else None,
        "load1": host.load1 if host else None,
        "cpus": host.cpus if host else None,
    }


def _run(model: RunModel) -> dict[str, Any] | None:
    run = model.run
    if run is None:
        return None
    return {
        "id": run.id,
        "name": run.name,
        "argv": redact_argv(run.argv),
        "pid": run.pid,
        "engine": run.engine,
        "engine_version": run.engine_version,
        "model": run.model,
        "nnodes": run.nnodes,
        "node_rank": run.node_rank,
        "tp": run.tp,
        "pp": run.pp,
        "dp": run.dp,
        "port": run.port,
        "log": run.log,
        "log_source": run.log_source,
        "launched": run.launched,
        "attempt": run.attempt,
        "simulated": run.simulated,
    }


def _phase(model: RunModel) -> dict[str, Any]:
    name = model.phases.run_phase()
    cell = next((cell for cell in model.phases.rail(model.now) if cell.phase == name), None)
    progress = cell.progress if cell else None
    usual = None if model.run is None else expectation(name, model.expected)
    return {
        "name": name,
        "since_s": round(max(0.0, model.now - cell.begin), 1) if cell and cell.begin else None,
        "expected_s": round(usual.usual_s, 1) if usual else None,
        "progress": dataclasses.asdict(progress) if progress else None,
    }


def _rank(model: RunModel, row: Process, number: int | None) -> dict[str, Any]:
    tag = row.rank or ""
    span = model.phases.current(tag)
    last = model.last_line_at(tag)
    return {
        "node": number if row.node is None else row.node,
        "rank": row.rank,
        "pid": row.pid or None,
        "alive": bool(row.pid) and row.state != "Z",
        "state": row.state,
        "phase": span.phase if span else None,
        "silent_s": round(max(0.0, model.now - last), 1) if last is not None else None,
        "cpu_percent": row.cpu_percent,
        "tree_cpu_percent": row.tree_cpu_percent,
        "rss_anon": row.rss_anon,
        "rss_file": row.rss_file,
        "rss_shmem": row.rss_shmem,
        "read_bps": row.read_bps,
        "write_bps": row.write_bps,
        "blocked_in": row.blocked_in,
        "children": row.children,
        "gpu": row.gpu,
        "top_frame": _top_frame(model, row),
    }


def _top_frame(model: RunModel, row: Process) -> str | None:
    """The innermost frame of Python of the rank's main thread; null where that is not known of the present."""
    dump = model.stacks[-1] if model.stacks else None
    if dump is None or not _tells_of_now(model, dump):
        return None
    for stack in dump.stacks:
        if (stack.pid, stack.rank, stack.node) == (row.pid, row.rank, row.node):
            frames = frames_of(dump, main_thread(stack))
            top = next((frame for frame in frames if not frame.native), frames[0] if frames else None)
            return None if top is None else where(top)
    return None


def _tells_of_now(model: RunModel, dump: Stacks) -> bool:
    """It is recent, or nothing has moved since it was taken."""
    verdict = model.verdict
    still = verdict is not None and verdict.quiet_s is not None and dump.at >= verdict.at - verdict.quiet_s
    return still or model.now - dump.at <= RECENT_S


def _clocks(model: RunModel) -> list[dict[str, Any]]:
    verdict = model.verdict
    if verdict is None:
        return []
    passed = max(0.0, model.now - verdict.at)
    return [
        {"name": clock.name, "ends_in_s": round(max(0.0, clock.ends_in_s - passed), 1), "effect": clock.effect}
        for clock in verdict.clocks
    ]


def _gpu(gpu: Gpu, number: int | None) -> dict[str, Any]:
    return {
        "node": number if gpu.node is None else gpu.node,
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "memory_used": gpu.memory_used,
        "memory_total": gpu.memory_total,
        "util_percent": gpu.util_percent,
        "power_w": gpu.power_w,
        "power_limit_w": gpu.power_limit_w,
        "temperature_c": gpu.temperature_c,
        "pids": [process.pid for process in gpu.processes],
        "error": gpu.error,
    }


def _verdict(model: RunModel) -> dict[str, Any]:
    verdict = model.verdict
    if verdict is None:
        return {
            "kind": "unknown",
            "confidence": "low",
            "summary": "No verdict yet.",
            "blames": [],
            "evidence": [],
            "ruled_out": [],
            "unknown": [],
            "next": [],
            "quiet_s": None,
        }
    body = dataclasses.asdict(verdict)
    del body["at"], body["clocks"]  # which have a place of their own
    return {"kind": body.pop("verdict"), **body}


def _since_start(model: RunModel, at: float | None) -> float | None:
    begin = min((span.begin for span in model.phases.spans()), default=None)
    return round(at - begin, 1) if at is not None and begin is not None else None
