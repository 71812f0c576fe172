"""Which GPU a rank uses. Pure.

NVML names processes by pid. In the initial pid namespace that settles it. Inside a container the driver may give the
host's pids, of which one can be a container's pid by chance; so there a pid counts only where it does not contradict
the configuration, and without a pid the configuration decides: CUDA_VISIBLE_DEVICES, base id and the order of ranks
(``gpu_id = base + pp · tp per node + tp · step``, ``engine.py`` of SGLang 0.3 to 0.5.23).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launchmon_agent.events import Gpu, GpuProcess
from launchmon_agent.sglang.command import value_of


@dataclass(frozen=True)
class RankPlace:
    pid: int
    place: int | None = None  # among the ranks of this node, in start order
    nspid: tuple[int, ...] = ()  # its pid in each nested namespace, ours first


@dataclass(frozen=True)
class RankGpu:
    index: int
    memory: int | None
    by: str  # pid | nspid | order


@dataclass(frozen=True)
class Numbering:
    """How a run counts its GPUs, from the launcher's arguments and environment."""

    visible: tuple[str, ...] | None = None  # CUDA_VISIBLE_DEVICES; None: not set, or not readable
    base: int = 0
    step: int = 1
    cuda: bool = True  # False: ``--device`` names something else

    @classmethod
    def of(cls, argv: Sequence[str], environ: Mapping[str, str] | None) -> Numbering:
        listed = (environ or {}).get("CUDA_VISIBLE_DEVICES")
        return cls(
            visible=None if listed is None else tuple(part.strip() for part in listed.split(",")),
            base=_number(value_of(argv, "--base-gpu-id"), 0),
            step=_number(value_of(argv, "--gpu-id-step"), 1),
            cuda=value_of(argv, "--device") in (None, "cuda"),
        )

    def gpu(self, place: int, gpus: Sequence[Gpu]) -> Gpu | None:
        """The GPU of the rank at this place. None: the configuration names none that exists."""
        number = self.base + place * self.step
        if not self.cuda:
            return None
        if self.visible is None:
            return next((gpu for gpu in gpus if gpu.index == number), None)
        if number >= len(self.visible):
            return None
        name = self.visible[number]
        if name.isdigit():
            return next((gpu for gpu in gpus if gpu.index == int(name)), None)
        return next((gpu for gpu in gpus if name and gpu.uuid and gpu.uuid.startswith(name)), None)


def map_ranks(
    ranks: Sequence[RankPlace], gpus: Sequence[Gpu], numbering: Numbering, *, host_pids: bool
) -> dict[int, RankGpu]:
    """pid of a rank → its GPU; ranks of which nothing is known are left out.

    ``host_pids``: our pids are the host's, hence comparable with NVML's without a doubt.
    """
    by_pid = {process.pid: (gpu, process) for gpu in gpus for process in gpu.processes}
    inner = [pid for rank in ranks for pid in rank.nspid[1:]]
    found: dict[int, RankGpu] = {}
    for rank in ranks:
        placed = None if rank.place is None else numbering.gpu(rank.place, gpus)
        hit = by_pid.get(rank.pid)
        if hit is not None and (host_pids or placed is None or placed.index == hit[0].index):
            found[rank.pid] = RankGpu(hit[0].index, hit[1].memory, "pid")
            continue
        nested = [by_pid[pid] for pid in rank.nspid[1:] if pid in by_pid and inner.count(pid) == 1]
        if nested:
            found[rank.pid] = RankGpu(nested[0][0].index, nested[0][1].memory, "nspid")
        elif placed is not None:
            found[rank.pid] = RankGpu(placed.index, _only(placed.processes), "order")
    return found


def _only(processes: Sequence[GpuProcess]) -> int | None:
    """A GPU with one process on it: that one is the rank."""
    return processes[0].memory if len(processes) == 1 else None


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default
