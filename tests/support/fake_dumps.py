"""Dumps for the TUI's tests: a real one, and synthetic ones in the states that a person meets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launchmon_agent import codec
from launchmon_agent.events import RankStack, Stacks
from tests.support.stacks_text import dump

RECORDED = Path(__file__).parents[1] / "recordings" / "stacks" / "tp1-stuck-in-loader.json"

START = """
    TpModelWorker.__init__ (sglang/srt/managers/tp_worker.py:319)
    Scheduler.init_tp_model_worker (sglang/srt/managers/scheduler.py:1033)
    Scheduler.__init__ (sglang/srt/managers/scheduler.py:568)
    run_scheduler_process (sglang/srt/managers/scheduler.py:6362)
    BaseProcess.run (multiprocessing/process.py:108)
    BaseProcess._bootstrap (multiprocessing/process.py:314)
    _main (multiprocessing/spawn.py:135)
    spawn_main (multiprocessing/spawn.py:122)
    <module> (<string>:1)
"""

BARRIER = f"""
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    wrapper (torch/distributed/c10d_logger.py:81)
    _call_impl (torch/nn/modules/module.py:1775)
    GroupCoordinator.all_reduce (sglang/srt/distributed/parallel_state.py:600)
    get_available_gpu_memory (sglang/srt/utils/common.py:480)
    ModelRunner.init_memory_pool (sglang/srt/model_executor/model_runner.py:1820)
    {START}
"""

LOCK = f"""
    FileLock.acquire (filelock/_api.py:332)
    FileBaton.wait (torch/utils/file_baton.py:49)
    _jit_compile (torch/utils/cpp_extension.py:2155)
    load_jit (sglang/jit_kernel/utils.py:120)
    ModelRunner.init_memory_pool (sglang/srt/model_executor/model_runner.py:1820)
    {START}
"""

LAUNCHER = """
    _PollLikeSelector.select (selectors.py:415)
    wait (multiprocessing/connection.py:947)
    _wait_for_scheduler_ready (sglang/srt/entrypoints/engine.py:2025)
    launch_server (sglang/srt/entrypoints/http_server.py:3156)
    <module> (sglang/launch_server.py:84)
"""

PIN = """
    wait (threading.py:331)
    _pin_memory_loop (torch/utils/data/_utils/pin_memory.py:60)
    run (threading.py:982)
"""

PTRACE = "the stacks cannot be read: kernel.yama.ptrace_scope is 1: only a parent of the server may read it"
PTRACE_CURE = "sudo sysctl kernel.yama.ptrace_scope=0    # until the next boot"
VANISHED = "the process ended before it could be read"


def recorded() -> Stacks:
    """Of a real server: TP1 is stuck in its loader, TP0 waits for it."""
    found = codec.decode(RECORDED.read_text())
    assert isinstance(found, Stacks)
    return found


def odd_one(at: float, ranks: int = 8, odd: int = 3, *, automatic: bool = False, number: int = 1) -> Stacks:
    """One rank waits for a lock, the others wait for it."""
    stacks: dict[str, str] = {"launcher": LAUNCHER}
    stacks.update({f"TP{rank}": LOCK if rank == odd else BARRIER for rank in range(ranks)})
    threads = {f"TP{rank}": (PIN,) for rank in range(ranks)}
    return taken(stacks, at, threads=threads, automatic=automatic, number=number)


def taken(
    stacks: Mapping[str, str],
    at: float,
    *,
    threads: Mapping[str, tuple[str, ...]] | None = None,
    automatic: bool = False,
    number: int = 1,
) -> Stacks:
    found = dump(stacks, at, threads)
    return replace(found, id=f"20251129-1805{number:02d}-{number}", automatic=automatic, seconds=0.31)


def without(found: Stacks, who: str, problem: str, cure: str | None = None, means: str | None = None) -> Stacks:
    """The same dump, but of ``who`` nothing could be read."""
    return _changed(found, (who,), means=means, problem=problem, cure=cure, threads=())


def kernel_view(found: Stacks) -> Stacks:
    """The same run, where ptrace is refused: of each process only what the kernel shows."""
    kernel = dump({stack.who: "do_futex (kernel)\nsleeping (state)" for stack in found.stacks}, found.at)
    refused = {"means": "proc", "problem": PTRACE, "cure": PTRACE_CURE}
    return _changed(replace(found, frames=kernel.frames, stacks=kernel.stacks), None, **refused)


def _changed(found: Stacks, who: tuple[str, ...] | None, **values: object) -> Stacks:
    def one(stack: RankStack) -> RankStack:
        return replace(stack, **values) if who is None or stack.who in who else stack  # type: ignore[arg-type]

    return replace(found, stacks=tuple(map(one, found.stacks)))
