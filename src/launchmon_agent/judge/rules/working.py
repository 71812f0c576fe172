"""Something moves: it is slow at worst. Which thing moves is said, and who does the work that the others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from launchmon_agent.events import Evidence, Next, Progress, Verdict
from launchmon_agent.judge import words
from launchmon_agent.judge.scene import STALL_S, Mover, Scene, compilers_words, ranks_words
from launchmon_agent.judge.stackview import meaning, place, waits

WEIGHTS = ("weights", "draft")

READS_FLOOR = 1024 * 1024
"""Bytes per second over all ranks that are worth a verdict of their own while the log still speaks."""

NETWORK_FILESYSTEMS = ("nfs", "ceph", "fuse", "lustre", "gpfs", "beegfs", "cifs", "smb3", "9p", "glusterfs", "s3fs")

FILES_FRESH_S = 15.0
"""The files are looked at each 5 s, and told of when they have changed."""

JUST_NOW_S = 3.0

BUILDS = ("deep-gemm-compile", "building", "triton-compile", "inductor")
"""Explanations of stacks (stacks/frames.table) of a rank that compiles, also where no child shows it."""


def compiling(scene: Scene) -> Verdict | None:
    """Compilers run below a rank, any of them: what the others wait for in a collective is that one."""
    found: dict[str, dict[str, int]] = {}
    for rank, track in scene.window.ranks.items():
        if track.compiled_at is not None and scene.now - track.compiled_at <= JUST_NOW_S:
            found[rank] = track.compilers
    launcher = scene.launcher
    if launcher is not None and launcher.compiled_at is not None and scene.now - launcher.compiled_at <= JUST_NOW_S:
        found["launcher"] = launcher.compilers
    if found:
        return _compilers(scene, found)
    return _compiling_inside(scene)


def _compilers(scene: Scene, found: dict[str, dict[str, int]]) -> Verdict:
    total: dict[str, int] = {}
    for children in found.values():
        for kind, count in children.items():
            total[kind] = total.get(kind, 0) + count
    ranks = tuple(found)
    waiting = tuple(rank for rank in scene.outstanding if rank not in found)
    rest = f", and {ranks_words(scene, waiting)} {words.verb(waiting, 'waits', 'wait')} for it" if waiting else ""
    bar = _bar(scene, ("jit", "graphs", "autotune"))
    return Verdict(
        scene.now,
        verdict="compiling",
        confidence="high",
        summary=f"{words.names(ranks)} {words.verb(ranks, 'compiles', 'compile')} kernels in {scene.phase} "
        f"({compilers_words(total)}){rest}{_eta(bar)}.",
        blames=ranks if waiting else (),
        evidence=tuple(Evidence(f"compilers of {rank}", compilers_words(children)) for rank, children in found.items()),
        ruled_out=scene.ruled_out("crashed"),
        next=(Next("wait", (), "the first start with an empty kernel cache takes minutes; the next one is fast"),),
    )


def _compiling_inside(scene: Scene) -> Verdict | None:
    """No child shows it, but the stack or the last line says that a rank compiles, and its CPU works."""
    busy = scene.who_moves("cpu")
    if not busy or (scene.log_quiet_s or 0.0) < STALL_S:
        return None
    stacks = scene.recent_stacks
    building = []
    if stacks is not None:
        for group in stacks.groups:
            said = meaning(group)
            if said is not None and said.id in BUILDS:
                building += [rank for rank in group.ranks if rank in busy]
    mark = scene.window.last_mark
    if not building and not (mark is not None and mark.phase == "jit"):
        return None
    ranks = tuple(building) or busy
    return Verdict(
        scene.now,
        verdict="compiling",
        confidence="high" if building else "medium",
        summary=f"{words.names(ranks)} {words.verb(ranks, 'compiles', 'compile')} kernels inside its own process in "
        f"{scene.phase}: {_cpu_words(scene, ranks)}.",
        blames=ranks if len(ranks) < len(scene.outstanding) else (),
        evidence=tuple(_cpu_evidence(scene, ranks)),
        ruled_out=scene.ruled_out("crashed"),
        next=(Next("wait", (), "its CPU works; the kernel cache makes the next start fast"),),
    )


def downloading(scene: Scene) -> Verdict | None:
    bar = _nested_bar(scene, "download")
    children = [rank for rank, track in scene.window.ranks.items() if _recent(scene, track.downloaded_at)]
    if scene.launcher is not None and _recent(scene, scene.launcher.downloaded_at):
        children.append("launcher")
    stuck: tuple[str, ...] = ()
    if scene.recent_stacks is not None:
        stuck = tuple(
            rank
            for group in scene.recent_stacks.groups
            if (said := meaning(group)) is not None and said.id == "hub-download"
            for rank in group.ranks
        )
    grows = _files_grow(scene)
    if bar is None and not children and not stuck and not grows:
        return None
    bps = scene.window.net.value if scene.window.net.known(scene.now) else None
    if grows:
        bps = scene.window.arriving.bps
    moves = scene.moving("host-net", "write")
    said_bar = f" ({bar.done} of {bar.total} files)" if bar is not None else ""
    rate = f" at {words.rate(bps)}" if bps else ""
    if moves or grows or bar is None or (scene.log_quiet_s or 0.0) < STALL_S:
        summary = f"The model is being downloaded{said_bar}{rate}{_arrived_words(scene)}."
    else:
        summary = f"The model is being downloaded{said_bar}, but nothing has arrived for {words.span(scene.quiet_s)}."
    return Verdict(
        scene.now,
        verdict="downloading",
        confidence="high" if moves or grows else "medium",
        summary=summary,
        blames=stuck if len(stuck) < len(scene.outstanding) else (),
        evidence=tuple(_movers_evidence(moves)),
        ruled_out=scene.ruled_out("crashed", "compiling"),
        next=(Next("wait", (), "or download beforehand and set HF_HUB_OFFLINE=1"),),
    )


def _files_grow(scene: Scene) -> bool:
    """Unfinished files of the model have grown between the last two looks at them."""
    files = scene.model.model_files
    if files is None or not files.unfinished or scene.phase not in ("start", "spawn", *WEIGHTS):
        return False
    return scene.now - files.at <= FILES_FRESH_S and (scene.window.arriving.bps or 0.0) >= READS_FLOOR / 64


def _arrived_words(scene: Scene) -> str:
    """``, 41 of 547 GiB, about 4m26s left``; what is not known is not said."""
    files = scene.model.model_files
    if files is None or files.here is None or not files.unfinished:
        return ""
    if files.total is None:
        return f", {words.size(files.here)} so far"
    left = scene.window.arriving.left_s(files.total - files.here) if _files_grow(scene) else None
    return f", {words.part(files.here, files.total)}{_left(left)}"


def _recent(scene: Scene, at: float | None) -> bool:
    return at is not None and scene.now - at <= 5.0


def reading(scene: Scene) -> Verdict | None:
    """Bytes, faults, page cache or GPU memory move while weights are loaded, or a process sleeps on its disk."""
    total = sum(_rates(scene))
    silent = (scene.log_quiet_s or 0.0) >= STALL_S
    if scene.phase in WEIGHTS:
        moves = scene.moving("read", "faults", "disk-sleep", "gpu-memory")
        if silent and not moves and not scene.moving("cpu", "gpu"):
            moves = scene.moving("memory", "host-disk", "host-net")
        if not moves or (not silent and total < READS_FLOOR and not scene.moving("gpu-memory", "disk-sleep")):
            return None
    else:
        moves = scene.moving("read", "faults", "disk-sleep")
        if not moves or not silent or scene.moving("cpu", "gpu"):
            return None
    movers = {mover.who for mover in moves}
    readers = tuple(rank for rank in (*scene.outstanding, "launcher") if rank in movers)
    late = bool(readers) and _others_are_past(scene, readers)
    return Verdict(
        scene.now,
        verdict="reading",
        confidence="high" if total >= READS_FLOOR or scene.moving("gpu-memory") else "medium",
        summary=_reading_words(scene, readers, total, moves, late),
        blames=readers if late else (),
        evidence=(*_bar_evidence(scene), *_movers_evidence(moves), *_filesystem(scene)),
        ruled_out=scene.ruled_out("crashed", "compiling"),
        next=(Next("wait", (), "bytes move: it is slow, not stuck"),),
    )


def _reading_words(scene: Scene, readers: Sequence[str], total: float, moves: list[Mover], late: bool) -> str:
    who = words.who(ranks_words(scene, readers)) if readers else "The run"
    verb = "read" if len(readers) > 1 else "reads"
    what = "weights" if scene.phase in WEIGHTS else "files"
    kinds = {mover.what for mover in moves}
    load = _load(scene)
    if load is not None and load.bps:
        total = load.bps
    if total >= 1024:
        how = f" at {words.rate(total)}"
    elif "disk-sleep" in kinds:
        how = ", sleeping on the disk"
    else:
        how = f" (what moves: {words.listed(sorted(_KIND_WORDS[kind] for kind in kinds))})"
    done = sum(track.bytes_read for track in scene.tracks.values())
    so_far = f", {words.size(done)} so far" if done >= READS_FLOOR else ""
    bar = _bar(scene, WEIGHTS)
    eta = _eta(bar)
    if load is not None:
        so_far = f", {words.part(load.done, load.total)}"
        eta = _left(load.left_s) or eta
    if bar is not None and bar.total and bar.done >= bar.total:
        text = f"{who} still {verb} {what}{how}{so_far}{eta}: the bar at 100 % only counts files that were opened."
    else:
        text = f"{who} {verb} {what}{how}{so_far}{_bar_words(bar)}{eta}."
    if not late:
        return text
    waiting = [rank for rank in scene.outstanding if rank not in readers]
    return f"{text} {words.who(ranks_words(scene, waiting))} {words.verb(waiting, 'waits', 'wait')} for it."


class _Load(NamedTuple):
    """The weights as bytes. ``bps`` and ``left_s`` are None where they are not known."""

    done: float
    total: int
    bps: float | None
    left_s: float | None


def _load(scene: Scene) -> _Load | None:
    """Of a model that one node reads whole, watched from its beginning. None: the bytes do not tell how far it is.

    The ranks share the page cache, so all of them together read each byte once; where they do not (a file system that
    caches nothing), they have soon read more than there is.
    """
    files, loading = scene.model.model_files, scene.window.loading
    if scene.phase != "weights" or scene.nnodes > 1 or files is None or loading is None:
        return None
    if not files.total or files.unfinished or not READS_FLOOR <= loading.done <= files.total:
        return None
    return _Load(loading.done, files.total, loading.bps, loading.left_s(files.total - loading.done))


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", about {words.span(max(1.0, seconds))} left"


_KIND_WORDS = {
    "read": "bytes read",
    "faults": "page faults",
    "disk-sleep": "waits for the disk",
    "gpu-memory": "GPU memory",
    "memory": "memory of the ranks",
    "write": "bytes written",
    "collectives": "launch count",
    "host-disk": "bytes from the disk",
    "host-net": "bytes from the network",
}


def _others_are_past(scene: Scene, ranks: Sequence[str]) -> bool:
    others = [rank for rank in scene.outstanding if rank not in ranks]
    farthest = max(map(scene.place_of, ranks), default=0)
    return bool(others) and all(scene.place_of(rank) > farthest for rank in others)


_COMPILES = "a kernel that is compiled inside its process"
_ALONE = {
    "dist-init": "it sets up its GPU, or a child of it tests the paths between the GPUs",
    "weights": "its weights are prepared",
    "kv-pool": "it allocates or pins memory",
}
"""What a rank that works alone most likely does."""


def computing(scene: Scene) -> Verdict | None:
    """The log is silent, and CPUs or GPUs work."""
    if (scene.log_quiet_s or 0.0) < STALL_S or scene.phase in ("start", "spawn"):
        return None
    if scene.phase == "http" and not scene.launcher_waits:
        return None
    cpu = scene.who_moves("cpu")
    gpu = [mover for mover in scene.moving("gpu", "gpu-memory") if (mover.quiet_s or 0.0) <= JUST_NOW_S]
    other = scene.moving("memory", "write", "collectives", "faults", "read")
    if not cpu and not gpu and not other:
        return None
    if cpu and scene.phase == "warm-up" and not scene.batch_seen and not gpu:
        return None
    waiting = tuple(rank for rank in scene.outstanding if rank not in cpu)
    if cpu and waiting and not gpu:
        most_likely = _ALONE.get(scene.phase, _COMPILES)
        summary = (
            f"{words.names(cpu)} {words.verb(cpu, 'works', 'work')} in {scene.phase} ({_cpu_words(scene, cpu)}) and "
            f"{ranks_words(scene, waiting)} {words.verb(waiting, 'waits', 'wait')}: {most_likely}."
        )
    elif gpu:
        busiest = max(gpu, key=lambda mover: mover.what == "gpu")
        summary = f"The GPUs work in {scene.phase}: {busiest.who} {busiest.value}."
    elif cpu:
        summary = f"The ranks work in {scene.phase}: {_cpu_words(scene, cpu)}."
    else:
        moving = _KIND_WORDS.get(other[0].what, other[0].what)
        summary = f"Slow in {scene.phase}: what moves is the {moving} of {other[0].who}."
    return Verdict(
        scene.now,
        verdict="computing",
        confidence="medium",
        summary=summary,
        blames=cpu if cpu and waiting and not gpu else (),
        evidence=(*_cpu_evidence(scene, cpu), *_movers_evidence(gpu + other), *_stack_evidence(scene)),
        ruled_out=scene.ruled_out("crashed", "compiling"),
        next=(Next("wait", (), "it works; its own frames would say at what (d dumps them)"),),
    )


def _rates(scene: Scene) -> list[float]:
    return [
        track.read.value
        for track in scene.tracks.values()
        if track.read.known(scene.now) and track.read.value is not None
    ]


def _nested_bar(scene: Scene, phase: str) -> Progress | None:
    """A bar that moves inside another phase."""
    cells = [cell for cell in scene.model.phases.rail(scene.now) if phase in cell.also]
    bar = scene.model.progress(phase) if cells else None
    return bar if bar is not None and bar.done < bar.total else None


def _bar(scene: Scene, phases: Sequence[str]) -> Progress | None:
    if scene.phase not in phases and not (scene.phase == "draft" and "weights" in phases):
        return None
    cells = [cell for cell in scene.model.phases.rail(scene.now) if cell.phase == scene.phase]
    return cells[0].progress if cells else None


def _bar_words(bar: Progress | None) -> str:
    return "" if bar is None or not bar.total else f", {bar.done} of {bar.total} files"


def _bar_evidence(scene: Scene) -> list[Evidence]:
    bar = _bar(scene, ("weights", "graphs"))
    return [] if bar is None else [Evidence("bar", f"{bar.done} of {bar.total}")]


def _eta(bar: Progress | None) -> str:
    if bar is None or bar.eta_s is None or bar.done >= bar.total:
        return ""
    return f", about {words.span(bar.eta_s)} to go"


def _cpu_words(scene: Scene, ranks: Sequence[str]) -> str:
    tracks = [scene.tracks[rank] for rank in ranks if rank in scene.tracks]
    values = [track.cpu.value for track in tracks if track.cpu.value is not None]
    if not values:
        return "its CPU works"
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"CPU {low} %" if low == high else f"CPU {low} to {high} %"


def _cpu_evidence(scene: Scene, ranks: Sequence[str]) -> list[Evidence]:
    return [
        Evidence(f"CPU of {rank}", f"{track.cpu.value:.0f} %")
        for rank in ranks[:8]
        if (track := scene.tracks.get(rank)) is not None and track.cpu.value is not None
    ]


def _movers_evidence(movers: Sequence[Mover]) -> list[Evidence]:
    return [Evidence(f"{_KIND_WORDS.get(mover.what, mover.what)} of {mover.who}", mover.value) for mover in movers[:6]]


def _stack_evidence(scene: Scene) -> list[Evidence]:
    view = scene.recent_stacks
    if view is None:
        return []
    return [
        Evidence(f"stack of {group.label}", f"{place(group)} (waits for: {waits(group) or 'not known'})")
        for group in view.groups[:3]
    ]


def _filesystem(scene: Scene) -> list[Evidence]:
    host = scene.host
    kind = None if host is None else host.filesystems.get("model")
    if kind is None:
        return []
    network = " (a network file system)" if kind.startswith(NETWORK_FILESYSTEMS) else ""
    return [Evidence("file system of the model", kind + network)]
