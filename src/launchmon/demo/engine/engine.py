"""The launcher's first half: start one process per rank and the detokenizer, and wait until all ranks can serve."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import time
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from launchmon.demo.engine import detokenizer_manager, model_runner, scheduler
from launchmon.demo.engine.assignment import Assignment
from launchmon.demo.engine.log import Logger
from launchmon.demo.options import Options

POLL_S = 5.0
"""How often the launcher looks for dead ranks while it waits, as SGLang does from 0.5.10 on."""

LAST_WORDS_S = 1.0
"""The peers of a rank that has died say so and send SIGQUIT, which ends this."""


class Engine:
    """The processes, schedulers first in rank order, and the launcher's ends of the request channels."""

    def __init__(self, options: Options, directory: str, log: Logger) -> None:
        self._options = options
        self._directory = directory
        self._log = log
        self._began = time.monotonic()
        self.schedulers: list[SpawnProcess] = []
        self.processes: list[SpawnProcess] = []
        self.to_scheduler, self._rank0 = socket.socketpair()
        self.from_detokenizer, self._texts = socket.socketpair()

    def launch(self) -> None:
        """Returns when every rank is ready. Raises :class:`RuntimeError` when one died first."""
        os.environ["SGLANG_RUN_ID"] = f"sglang-run-{time.time()}-{random.randint(0, 10**8)}"  # noqa: S311
        signal.signal(signal.SIGQUIT, self._launch_phase_sigquit_handler)
        try:
            readers = self._launch_subprocesses()
            infos = _wait_for_scheduler_ready(readers, self.schedulers)
        except BaseException:
            self.kill_process_tree(include_parent=False)
            raise
        timings = infos[0]["timings"]
        self._log.info(
            f"Engine startup timings (s): load_weight={timings['load_weight']:.2f}, "
            f"kv_cache_allocation={timings['kv_cache_allocation']:.2f}, scheduler_e2e={timings['scheduler_e2e']:.2f}, "
            f"cuda_graph={{prefill=0.00, decode={timings['decode']:.2f}, target_verify=0.00, draft_prefill=0.00, "
            f"draft_decode=0.00, draft_extend=0.00}}, tokenizer_e2e={time.monotonic() - self._began:.2f}"
        )

    def kill_process_tree(self, *, include_parent: bool) -> None:
        """SIGKILL for every child; with ``include_parent`` this does not return."""
        pid = os.getpid()
        self._log.info(f"kill_process_tree called: parent_pid={pid}, include_parent={include_parent}, pid={pid}")
        for child in self.processes:
            child.kill()
        if include_parent:
            os.kill(pid, signal.SIGKILL)
        for child in self.processes:
            child.join()

    def _launch_phase_sigquit_handler(self, signum: int, frame: object) -> None:  # noqa: ARG002
        self._log.info("Received sigquit from a child process. It usually means the child failed.")
        self.kill_process_tree(include_parent=True)

    def _launch_subprocesses(self) -> list[Connection]:
        """The ends from which the ranks' reports are read."""
        options = self._options
        context = multiprocessing.get_context("spawn")
        ring = [socket.socketpair() for _ in range(options.tp)] if options.tp > 1 else []
        tokens_in, tokens_out = socket.socketpair()
        given: list[socket.socket | Connection] = [tokens_in, tokens_out, self._rank0, self._texts]
        readers = []
        for rank in range(options.tp):
            reader, writer = context.Pipe(duplex=False)
            readers.append(reader)
            given.append(writer)
            predecessor = ring[rank - 1][1] if ring else None
            successor = ring[rank][0] if ring else None
            first = rank == 0
            arguments: tuple[Any, ...] = (
                _assignment(options, rank, self._directory),
                predecessor,
                successor,
                self._rank0 if first else None,
                tokens_in if first else None,
                writer,
            )
            self._start(context.Process(target=scheduler.run_scheduler_process, args=arguments, daemon=True))
        self.schedulers = list(self.processes)
        import_s = options.scenario.seconds["spawn"] * 0.9 / options.speed
        arguments = (os.getpid(), import_s, tokens_out, self._texts)
        self._start(context.Process(target=detokenizer_manager.run_detokenizer_process, args=arguments, daemon=True))
        # The children have their own copies now. The launcher keeps none, so that a death closes the connection.
        for end in given:
            end.close()
        for pair in ring:
            pair[0].close()
            pair[1].close()
        return readers

    def _start(self, process: SpawnProcess) -> None:
        process.start()
        self.processes.append(process)


def _wait_for_scheduler_ready(readers: list[Connection], processes: list[SpawnProcess]) -> list[dict[str, Any]]:
    infos = []
    for rank, reader in enumerate(readers):
        while not reader.poll(timeout=POLL_S):
            for other, process in enumerate(processes):
                if not process.is_alive():
                    time.sleep(LAST_WORDS_S)
                    raise _scheduler_died_error(other, process)
        try:
            infos.append(reader.recv())
        except EOFError:
            raise _scheduler_died_error(rank, processes[rank]) from None
    return infos


def _scheduler_died_error(rank: int, process: SpawnProcess) -> RuntimeError:
    process.join(timeout=10)
    return RuntimeError(
        f"Rank {rank} scheduler died during initialization (exit code: {process.exitcode}). If exit code is -9 "
        "(SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
    )


def _assignment(options: Options, rank: int, directory: str) -> Assignment:
    row = options.scenario
    seconds = dict(row.seconds)
    if row.slow is not None and row.slow.rank == rank:
        seconds[row.slow.phase] *= row.slow.factor
    # On fewer ranks than the scenario was made for, the model is cut to what fits beside the pool and the graphs.
    room = row.gpu.memory_gb - row.gpu.context_gb - row.kv_gb - 2 * model_runner.GRAPHS_GB
    return Assignment(
        launcher=os.getpid(),
        directory=directory,
        rank=rank,
        size=options.tp,
        speed=options.speed,
        seconds=seconds,
        gpus=row.gpus,
        gpu_memory_gb=row.gpu.memory_gb,
        context_gb=row.gpu.context_gb,
        weights_gb=min(row.model.rank_weights_gb(options.tp), room),
        kv_gb=row.kv_gb,
        kv_bytes_per_token=row.model.kv_bytes_per_token,
        shards=row.model.shards,
        architecture=row.model.architecture,
        quantization=row.model.quantization,
        context_len=row.model.context_len,
        nvlink=row.gpu.nvlink,
        graphs=options.graphs,
        deadlock=options.failure is not None,
        traffic_s=row.traffic_s,
    )
