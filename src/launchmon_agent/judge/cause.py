"""Which failure came first, over all ranks and the kernel. Pure.

SGLang answers the failure of one rank by ending all of them, so most of what a log and a process table show after a
crash are victims: SIGQUIT, "Killed", connections closed by peers. A killed rank prints nothing at all.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from launchmon_agent.events import LAUNCHER, Exit, Kernel, LogError
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.ranks import expected_ranks
from launchmon_agent.sglang.table import cause_of

RANK_ROLES = ("scheduler", "dp-controller", "detokenizer", "spawning")

TOGETHER_S = 0.3
"""Processes that end within this time were ended together."""

KERNEL_S = 5.0
"""A kernel message and the line or the exit that it explains lie closer than this."""

XID_S = 120.0
"""A GPU that reports an error fails its next call, which may be in the next forward."""

CONSEQUENT_XIDS = frozenset((45, 43, 154))
"""Clean-up after another error, or a program's own fault (NVIDIA's Xid catalogue)."""

_NAMED = re.compile(r"\b(?:Rank|Subprocess scheduler_)\s?(\d+)(?: scheduler)?\b")
_REPORTED = re.compile(r"\bScheduler or DataParallelController (\d+) terminated with\b")
"""What the launcher of a node above 0 prints of a child, by the pid that it has in the launcher's own namespace."""

_XID = re.compile(r"Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<number>\d+)")


@dataclass(frozen=True)
class Cause:
    """Exactly one of ``error``, ``exit`` and ``kernel`` is the first failure; others may go with it."""

    who: str  # a rank, "launcher", …
    error: LogError | None = None
    exit: Exit | None = None
    kernel: Kernel | None = None


def first_cause(model: RunModel) -> Cause | None:
    """None where nothing has failed. An error that only follows another is the cause where there is no other."""
    error = model.first_failure
    gone = first_gone(model)
    kernel = _kernel_cause(model, error, gone)
    if kernel is not None:
        return kernel
    if gone is not None and gone.role in RANK_ROLES and _came_first(model, gone, error):
        return Cause(gone.rank or gone.role, exit=gone)
    if error is not None:
        reported = _reported_end(model, error)
        if reported is not None:
            return Cause(reported.rank or reported.role, exit=reported)
        return Cause(_blamed_by(model, error), error=error)
    gave_up = _gave_up_waiting(model)
    if gave_up is not None and (gone is None or gone.role not in RANK_ROLES):
        return gave_up
    if gone is not None:
        return Cause(gone.rank or gone.role, exit=gone)
    return None


def first_gone(model: RunModel) -> Exit | None:
    """The process that ended before all others; None where several tie for the first place."""
    exits = sorted(model.exits, key=lambda gone: gone.at)
    if len(exits) > 1 and exits[0].at == exits[1].at:
        return None
    return exits[0] if exits else None


def _gave_up_waiting(model: RunModel) -> Cause | None:
    """A rank failed because others were late with their weights: those are to blame, if they can be named."""
    for error in model.errors:
        cause = cause_of(error.detail or error.text)
        if error.severity != "consequence" or cause is None or cause.id != "peers_not_loaded":
            continue
        loaded = {
            span.rank for span in model.phases.spans() if span.phase == "weights" and span.end and not span.failed
        }
        late = [rank for rank in model.phases.ranks() if rank not in loaded and rank != error.rank]
        return Cause(late[0] if len(late) == 1 else error.rank, error=error)
    return None


def _came_first(model: RunModel, gone: Exit, error: LogError | None) -> bool:
    """Whether this end came before the first error of the log, whose time is cut to a whole second."""
    if any(other.rank == gone.rank and other.severity in ("fatal", "error") for other in model.errors if gone.rank):
        return False
    if error is None or gone.at < error.at:
        return True
    if gone.at > error.at + 1.0:
        return False
    others = [other.at for other in model.exits if other is not gone]
    return error.rank not in (gone.rank, LAUNCHER) and bool(others) and min(others) - gone.at > TOGETHER_S


def _blamed_by(model: RunModel, error: LogError) -> str:
    """Who an error is about: the launcher may report the end of a rank by its number."""
    found = _NAMED.search(error.detail or "") or _NAMED.search(error.text)
    if error.rank == LAUNCHER and found is not None and model.run is not None:
        ranks = expected_ranks(model.run)
        if int(found[1]) < len(ranks):
            return ranks[int(found[1])]
    return error.rank


def _reported_end(model: RunModel, error: LogError) -> Exit | None:
    """The end of a process that this line of the launcher only reports."""
    found = _REPORTED.search(error.text) if error.rank == LAUNCHER else None
    if found is None:
        return None
    return next((gone for gone in model.exits if gone.pid == int(found[1]) and gone.role in RANK_ROLES), None)


def _kernel_cause(model: RunModel, error: LogError | None, gone: Exit | None) -> Cause | None:
    failed_at = min((event.at for event in (error, gone) if event is not None), default=None)
    if failed_at is None:
        return None
    for message in sorted(model.kernel, key=lambda event: event.at):
        if message.what in ("oom-kill", "segfault") and message.at <= failed_at + KERNEL_S:
            exit_ = _exit_of(model, message)
            if exit_ is not None:
                return Cause(exit_.rank or exit_.role, exit=exit_, kernel=message)
        elif is_gpu_trouble(message) and failed_at - XID_S <= message.at <= failed_at + KERNEL_S:
            return Cause(rank_of_gpu(model, message) or (error.rank if error else LAUNCHER), error, kernel=message)
    return None


def _exit_of(model: RunModel, message: Kernel) -> Exit | None:
    """By pid; in a container, where pids differ, the only process that died of the right signal at that moment."""
    for exit_ in model.exits:
        if exit_.pid == message.pid:
            return exit_
    number = -signal.SIGKILL if message.what == "oom-kill" else -signal.SIGSEGV
    near = [
        exit_ for exit_ in model.exits if abs(exit_.at - message.at) < KERNEL_S / 2 and exit_.code in (None, number)
    ]
    return min(near, key=lambda exit_: exit_.at, default=None)


def is_gpu_trouble(message: Kernel) -> bool:
    """An Xid that is no mere clean-up, or a GPU that fell off its bus."""
    found = _XID.search(message.text)
    if found is not None:
        return int(found["number"]) not in CONSEQUENT_XIDS
    return message.what == "nvrm" and "fallen off the bus" in message.text


def rank_of_gpu(model: RunModel, message: Kernel) -> str | None:
    """The rank on the GPU that a kernel message names, by its place on the bus."""
    found = _XID.search(message.text)
    if found is None or model.gpus is None or model.processes is None:
        return None
    bus = _bus(found["pci"])
    gpu = next((gpu for gpu in model.gpus.gpus if gpu.pci is not None and _bus(gpu.pci) == bus), None)
    if gpu is None:
        return None
    return next((row.rank for row in model.rank_rows() if row.gpu == gpu.index), None)


def _bus(pci: str) -> tuple[str, ...]:
    """Domain aside, which drivers write with four or eight digits, and the function, which is always 0."""
    return tuple(pci.lower().split(".")[0].split(":")[-2:])
