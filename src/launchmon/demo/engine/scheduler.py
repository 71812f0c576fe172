"""One rank: its birth, its launch, its event loop, and how it tells the launcher that it has failed."""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from multiprocessing.connection import Connection

from launchmon.demo.engine import process
from launchmon.demo.engine.assignment import Assignment
from launchmon.demo.engine.channel import Channel
from launchmon.demo.engine.distributed_c10d import ProcessGroup
from launchmon.demo.engine.log import Logger
from launchmon.demo.engine.model_runner import ModelRunner
from launchmon.demo.engine.request_receiver import SchedulerRequestReceiver

IMPORT_SKEW = 0.03
"""Each further rank takes this much longer to import, so that titles appear one after the other."""

PREFILL_S = 0.1
DECODE_S = 0.012
DECODE_LOG_INTERVAL = 40


class Scheduler:
    """``frontend`` and ``detokenizer`` are rank 0's connections to the launcher and to the detokenizer."""

    def __init__(
        self,
        orders: Assignment,
        group: ProcessGroup,
        frontend: Channel | None,
        detokenizer: Channel | None,
    ) -> None:
        self.orders = orders
        self.log = Logger(orders.tag)
        self.detokenizer = detokenizer
        began = time.monotonic()
        self.runner = ModelRunner(orders, group, self.log)
        if orders.rank == 0:
            self.log.info(
                f"max_total_num_tokens={self.runner.max_total_num_tokens}, chunked_prefill_size=8192, "
                f"max_prefill_tokens=16384, max_running_requests=2048, context_len={orders.context_len}, "
                f"available_gpu_mem={self.runner.gpu.free_gb:.2f} GB"
            )
        self.log.info(
            "Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False hybrid_ssm=False "
            "hicache_attached=False"
        )
        self.receiver = SchedulerRequestReceiver(group, frontend, orders.traffic_s / orders.speed)
        self.timings = {**self.runner.timings, "scheduler_e2e": time.monotonic() - began}
        self.last_decode_log = time.monotonic()

    def event_loop_overlap(self) -> None:
        """Returns at a request to shut down. Raises :class:`RuntimeError` when a peer has died."""
        while True:
            for request in self.receiver.recv_requests():
                if request["kind"] == "shutdown":
                    return
                self.run_batch(request)

    def run_batch(self, request: dict[str, object]) -> None:
        new_tokens = int(str(request["max_new_tokens"]))
        input_tokens = int(str(request["input_tokens"]))
        began = time.monotonic()
        self.runner.forward(PREFILL_S)
        speed = input_tokens / max(time.monotonic() - began, 1e-3)
        if self.orders.rank == 0:
            self.log.info(
                f"Prefill batch, #new-seq: 1, #new-token: {input_tokens}, #cached-token: 0, token usage: 0.00, "
                f"#running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, "
                f"input throughput (token/s): {speed:.2f}"
            )
        for step in range(1, new_tokens):
            self.runner.forward(DECODE_S)
            if step % DECODE_LOG_INTERVAL == 0:
                self.log_decode(input_tokens + step)
        if self.detokenizer is not None and request["rid"] is not None:
            self.detokenizer.send({"rid": request["rid"], "output_ids": list(range(new_tokens))})

    def log_decode(self, tokens: int) -> None:
        if self.orders.rank != 0:
            return
        now = time.monotonic()
        speed = DECODE_LOG_INTERVAL / max(now - self.last_decode_log, 1e-3)
        self.last_decode_log = now
        self.log.info(
            f"Decode batch, #running-req: 1, #token: {tokens}, "
            f"token usage: {tokens / self.runner.max_total_num_tokens:.2f}, cuda graph: {self.orders.graphs}, "
            f"gen throughput (token/s): {speed:.2f}, #queue-req: 0"
        )


def run_scheduler_process(
    orders: Assignment,
    predecessor: socket.socket | None,
    successor: socket.socket | None,
    frontend: socket.socket | None,
    detokenizer: socket.socket | None,
    ready: Connection,
) -> None:
    """The whole life of a rank. Sends its timings over ``ready`` when it can serve."""
    process.ignore_interrupts()
    orders.pause(orders.seconds["spawn"] * (1 + IMPORT_SKEW * orders.rank))
    process.become(f"sglang::scheduler{'_' + orders.tag if orders.tag else ''}", orders.launcher)
    try:
        scheduler = Scheduler(
            orders,
            ProcessGroup(orders.rank, orders.size, predecessor, successor),
            Channel(frontend) if frontend is not None else None,
            Channel(detokenizer) if detokenizer is not None else None,
        )
        ready.send({"status": "ready", "timings": scheduler.timings})
        scheduler.event_loop_overlap()
    except Exception:  # noqa: BLE001 - whatever it is, SGLang logs it and fails the whole server
        Logger(orders.tag).info(f"Scheduler hit an exception: {traceback.format_exc()}")
        if os.getppid() == orders.launcher:
            os.kill(orders.launcher, signal.SIGQUIT)
