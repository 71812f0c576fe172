"""What lies beside a failure or a stall and may be its reason: orphans of earlier launches, limits that are low. Pure.

GPU memory and ports are taken from a launch by processes that nobody remembers, and limits by a shell that nobody looks
at; the error text names neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from launchmon_agent.events import Evidence, Gpu, Next, Orphan
from launchmon_agent.judge import words
from launchmon_agent.judge.budget import budget, cache_words, reserve_words
from launchmon_agent.judge.scene import Scene

MEMORY_ROWS = frozenset(
    {"kv-pool-no-memory", "larger-than-profiled", "memory-unbalanced"}
    | {"gpu-memory-weights", "gpu-memory-draft", "gpu-memory-graphs", "gpu-memory-serving"}
)
"""Rows of failures.table that say that a GPU has too little memory."""

CACHE_ROWS = frozenset({"kv-pool-no-memory", "larger-than-profiled"})
RESERVE_ROWS = frozenset({"gpu-memory-graphs", "gpu-memory-serving"})
PORT_ROWS = frozenset({"port-taken"})
LIMIT_ROWS = {"open-files": "open-files", "locked-memory": "locked-memory"}
"""Row of failures.table → limit."""

HELD = 1 << 30
"""Bytes of GPU memory; a bare context has about half of it."""

FEW_FILES = 4096
"""Open files with which a server with some hundred requests runs out."""

LIMITED = frozenset({"hung-serving", "http-wait"})
"""Kinds of stall that a server makes which cannot open another connection."""

_NUMBER = re.compile(r"(?<![\d.])\d{2,5}(?![\d.])")


def beside_failure(scene: Scene, row_id: str, texts: Sequence[str]) -> tuple[str, list[Evidence], list[Next]]:
    """What the failure's row makes worth a look: a sentence ("" where there is nothing), evidence, what to do first."""
    if row_id in MEMORY_ROWS:
        said, evidence, first = _memory_taken(scene)
        return " ".join(part for part in (said, _budget_words(scene, row_id)) if part), evidence, first
    if row_id in PORT_ROWS:
        return _port_taken(scene, texts)
    if row_id in LIMIT_ROWS:
        said = _limit_words(scene, LIMIT_ROWS[row_id])
        return said, [Evidence("limit", said)] if said else [], []
    return "", [], []


def beside_stall(scene: Scene, kind: str) -> list[Evidence]:
    """For a verdict of something that stands still."""
    found = [Evidence("left by an earlier launch", _orphan_words(scene, orphan)) for orphan in _orphans(scene)[:3]]
    if scene.nnodes > 1 and (said := _limit_words(scene, "locked-memory")):
        found.append(Evidence("limit", f"{said} InfiniBand and RoCE need it unlimited."))
    files = _limits(scene).get("open-files")
    if kind in LIMITED and files is not None and files < FEW_FILES:
        found.append(Evidence("limit", _limit_words(scene, "open-files")))
    return found


def strangers(scene: Scene) -> list[tuple[Gpu, tuple[int, ...], int]]:
    """GPUs with memory of others: the GPU, their pids, the bytes. Empty too where pids cannot be told from ours."""
    gpus = scene.model.gpus
    if gpus is None or not scene.window.pids_match:
        return []
    ours = {track.process.pid for track in (*scene.window.ranks.values(), *scene.window.others.values())}
    ours |= {exit_.pid for exit_ in scene.model.exits}
    found = []
    for gpu in gpus.gpus:
        theirs = [process for process in gpu.processes if process.pid not in ours and process.memory]
        if theirs:
            held = sum(process.memory or 0 for process in theirs)
            found.append((gpu, tuple(process.pid for process in theirs), held))
    return found


def stranger_evidence(scene: Scene) -> list[Evidence]:
    """Who else holds memory on our GPUs: orphans of an earlier launch, or somebody else's work."""
    return [
        Evidence(f"GPU {gpu.index}", f"{words.size(held)} held by {_pids(pids)}, which is not of this run")
        for gpu, pids, held in strangers(scene)[:3]
    ]


def _memory_taken(scene: Scene) -> tuple[str, list[Evidence], list[Next]]:
    by_orphans = {orphan.pid: _held_by(scene, orphan) for orphan in _orphans(scene)}
    holding = [orphan for orphan in _orphans(scene) if by_orphans[orphan.pid] >= HELD]
    evidence = [Evidence("left by an earlier launch", _orphan_words(scene, orphan)) for orphan in holding[:3]]
    if holding:
        held = sum(by_orphans[orphan.pid] for orphan in holding)
        said = f"{words.size(held)} of GPU memory are held by {_left(holding)}, whose launcher is dead."
        return said, evidence, [_end(holding[0])]
    others = [(gpu, pids, held) for gpu, pids, held in strangers(scene) if held >= HELD]
    if not others:
        return "", [], []
    gpu, pids, held = max(others, key=lambda other: other[2])
    return f"{words.size(held)} of GPU {gpu.index} are held by {_pids(pids)}, not of this run.", [], []


def _budget_words(scene: Scene, row_id: str) -> str:
    failure = scene.model.first_failure
    found = budget(scene.model, "" if failure is None else failure.rank)
    if found is None:
        return ""
    if row_id in CACHE_ROWS:
        return cache_words(found) if found.cache <= 0 else ""
    return reserve_words(found) if row_id in RESERVE_ROWS else ""


def _port_taken(scene: Scene, texts: Sequence[str]) -> tuple[str, list[Evidence], list[Next]]:
    numbers = {int(number) for text in texts for number in _NUMBER.findall(text)}
    for orphan in _orphans(scene):
        taken = sorted(numbers.intersection(orphan.ports))
        if taken:
            said = f"Port {taken[0]} is held by {_left([orphan])}, whose launcher is dead."
            return said, [Evidence("left by an earlier launch", _orphan_words(scene, orphan))], [_end(orphan)]
    http = scene.model.http
    if http is not None and http.ours is False and http.owner_pid is not None and http.port in numbers:
        return f"Port {http.port} is held by pid {http.owner_pid}, not of this run.", [], []
    return "", [], []


def _orphans(scene: Scene) -> tuple[Orphan, ...]:
    left = scene.model.leftovers
    return () if left is None else left.orphans


def _held_by(scene: Scene, orphan: Orphan) -> int:
    gpus = scene.model.gpus.gpus if scene.model.gpus is not None else ()
    return sum(one.memory or 0 for gpu in gpus for one in gpu.processes if one.pid == orphan.pid)


def _orphan_words(scene: Scene, orphan: Orphan) -> str:
    parts = [f"pid {orphan.pid}, {orphan.title}"]
    held = _held_by(scene, orphan)
    if held:
        parts.append(f"{words.size(held)} of GPU memory")
    if orphan.ports:
        parts.append(f"port {words.listed([str(port) for port in orphan.ports[:4]])}")
    return ", ".join(parts)


def _left(orphans: Sequence[Orphan]) -> str:
    if len(orphans) == 1:
        return f"{orphans[0].title} of an earlier launch (pid {orphans[0].pid})"
    return f"{len(orphans)} processes of an earlier launch ({_pids([orphan.pid for orphan in orphans])})"


def _pids(pids: Sequence[int]) -> str:
    more = f" and {len(pids) - 4} more" if len(pids) > 4 else ""
    return f"pid {', '.join(map(str, pids[:4]))}{more}"


def _end(orphan: Orphan) -> Next:
    return Next("run", (f"launchmon kill --pid {orphan.pid}",), "ends what the earlier launch left", "issue")


def _limits(scene: Scene) -> dict[str, int]:
    return {} if scene.model.run is None else scene.model.run.limits


def _limit_words(scene: Scene, name: str) -> str:
    limit = _limits(scene).get(name)
    if limit is None:
        return ""
    if name == "open-files":
        return f"At most {limit} files may be open (ulimit -n)."
    return f"At most {words.size(limit)} may be locked in memory (ulimit -l)."
