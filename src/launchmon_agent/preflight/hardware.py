"""Sizes, GPUs, memory and limits: whether the launch fits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launchmon_agent.judge.words import listed, size
from launchmon_agent.preflight.facts import SHM
from launchmon_agent.preflight.finding import ERROR, NOTE, WARNING, Finding
from launchmon_agent.preflight.start import SHOWN, Start, pids_in_words

HELD = 1 << 30
"""Bytes of GPU memory of others beyond which a launch may not fit; a bare context has about half of it."""
SHM_PER_RANK = 64 << 20
"""NCCL's buffers and SGLang's message queues, generously."""
WANTED_FILES = 65535
"""SGLang raises its limit of open files to that (srt/utils, set_ulimit)."""


def _sizes(start: Start) -> Iterator[Finding]:
    world = start.command.tp * start.command.pp
    if world % start.command.nnodes:
        yield Finding(
            "nodes",
            ERROR,
            f"{start.command.nnodes} nodes do not divide {start.sizes}",
            "each node gets the same number of ranks",
            f"--nnodes {_divisor(world, start.command.nnodes)}",
        )
    if start.command.node_rank >= start.command.nnodes:
        yield Finding(
            "node-rank",
            ERROR,
            f"--node-rank {start.command.node_rank} is beyond the last of {start.command.nnodes} nodes",
            "nodes are counted from 0",
            f"--node-rank {start.command.nnodes - 1}",
        )
    if start.command.attention_dp and start.command.tp % start.command.dp:
        yield Finding(
            "attention-dp",
            ERROR,
            f"DP attention with --dp-size {start.command.dp} does not divide --tp-size {start.command.tp}",
            "each attention group gets the same number of ranks",
            f"--dp-size {_divisor(start.command.tp, start.command.dp)}",
        )


def _heads(start: Start) -> Iterator[Finding]:
    config = start.facts.model.config if start.facts.model is not None else None
    heads = _config_number(config, "num_attention_heads")
    groups = start.command.dp if start.command.attention_dp else 1
    attention_tp = start.command.tp // groups if start.command.tp % groups == 0 else None
    if heads is None or attention_tp is None or heads % attention_tp == 0 or start.device == "cpu":
        return  # on a CPU SGLang pads them
    yield Finding(
        "heads",
        ERROR,
        f"{heads} attention heads are not divided by {attention_tp} ranks",
        "SGLang splits the heads evenly, and ends with an assertion where it cannot",
        f"--tp-size {_divisor(heads, attention_tp) * groups}",
    )


def _gpu_count(start: Start) -> Iterator[Finding]:
    gpus, command = start.facts.gpus, start.command
    if gpus is None or start.device == "cpu" or command.simulated:
        return
    if not gpus.gpus:
        why = gpus.error or "the driver reports none"
        yield Finding("no-gpu", WARNING, "No NVIDIA GPU is seen here", why, "nvidia-smi    # or --device cpu")
        return
    step, first = start.flag_number("--gpu-id-step", 1), start.flag_number("--base-gpu-id", 0)
    needed, there = first + (start.ranks - 1) * max(1, step) + 1, len(start.visible_gpus())
    if needed > there:
        chosen = start.env.get("CUDA_VISIBLE_DEVICES")
        yield Finding(
            "gpu-count",
            ERROR,
            f"{needed} GPUs are needed here, {there} are there",
            start.sizes
            + (f" on {command.nnodes} nodes" if command.nnodes > 1 else "")
            + ("" if chosen is None else f"; CUDA_VISIBLE_DEVICES={chosen}"),
            f"--tp-size {max(1, there)}" if (command.nnodes, command.pp, command.dp) == (1, 1, 1) else "",
        )


def _gpu_memory(start: Start) -> Iterator[Finding]:
    if start.device == "cpu":
        return
    held = [gpu for gpu in start.visible_gpus() if gpu.memory_used is not None and gpu.memory_used > HELD]
    if not held:
        return
    pids = list(dict.fromkeys(process.pid for gpu in held for process in gpu.processes))
    by_orphans = not {orphan.pid for orphan in start.facts.orphans or ()}.isdisjoint(pids)
    who = f"by {pids_in_words(pids)}" if pids else "by processes that cannot be seen from here"
    shown = listed([f"GPU {gpu.index} {size(gpu.memory_used or 0)}" for gpu in held[:SHOWN]])
    more = f" and {len(held) - SHOWN} more" if len(held) > SHOWN else ""
    yield Finding(
        "gpu-memory",
        WARNING,
        f"GPU memory is in use {who}: {shown}{more}",
        "orphans of an earlier launch" if by_orphans else "a launch that needs most of it will not fit",
        "launchmon runs" if by_orphans or not pids else f"ps -o pid,user,args -p {','.join(map(str, pids[:8]))}",
    )


def _shm(start: Start) -> Iterator[Finding]:
    free, total, needed = start.facts.shm_free, start.facts.shm_total, SHM_PER_RANK * start.ranks
    if free is None or total is None or free >= needed:
        return
    larger, emptier = "docker run --shm-size 32g …", f"ls -lt {SHM}    # files of servers that are gone can be removed"
    yield Finding(
        "shm",
        WARNING,
        f"{SHM} has {size(free)} left of {size(total)}",
        "a rank that finds it full is killed by SIGBUS without a word",
        larger if total < needed else emptier,
    )


def _limits(start: Start) -> Iterator[Finding]:
    limits = start.facts.limits
    if limits is None:
        return
    if limits.open_files is not None and limits.open_files < WANTED_FILES:
        yield Finding(
            "open-files",
            NOTE if limits.open_files >= 4096 else WARNING,
            f"At most {limits.open_files} files may be open",
            f"SGLang wants {WANTED_FILES}: each request and each peer is one",
            f"ulimit -Hn {WANTED_FILES}    # as root, or in /etc/security/limits.conf",
        )
    if limits.locked_memory is not None and start.command.nnodes > 1:
        yield Finding(
            "locked-memory",
            WARNING,
            f"At most {size(limits.locked_memory)} may be locked in memory",
            "InfiniBand and RoCE register their buffers, and fail where they may not",
            "ulimit -l unlimited",
        )


def _config_number(config: Mapping[str, object] | None, name: str) -> int | None:
    for place in (config or {}, (config or {}).get("text_config"), (config or {}).get("llm_config")):
        value = place.get(name) if isinstance(place, Mapping) else None
        if isinstance(value, int) and value > 0:
            return value
    return None


def _divisor(number: int, at_most: int) -> int:
    """The largest divisor that is not above ``at_most``."""
    return next(one for one in range(min(number, max(1, at_most)), 0, -1) if number % one == 0)


CHECKS = (_sizes, _heads, _gpu_count, _gpu_memory, _shm, _limits)
