"""One rank's part of the launch, from the rendezvous to the captured graphs, with the log lines of SGLang 0.5.23."""

from __future__ import annotations

import mmap
import os
import time

from launchmon.demo.engine.assignment import Assignment
from launchmon.demo.engine.distributed_c10d import (
    ProcessGroup,
    _create_c10d_store,
    all_reduce,
    barrier,
    monitored_barrier,
)
from launchmon.demo.engine.log import Bar, Logger
from launchmon.demo.gpus import Gpu, Slots

CAPTURE_SIZES = (1, 2, 4, *range(8, 257, 8))
"""Batch sizes of which a decode graph is captured."""

GRAPHS_GB = 1.6

CHECKPOINT = "checkpoint.safetensors"
CHECKPOINT_BYTES = 48 << 20
"""Size of the (sparse) file that all ranks map and read: enough that RssFile is most of a rank's RSS, as with a real
checkpoint, and the memory is there only once."""


class ModelRunner:
    """``timings`` collects the seconds that the ``Engine startup timings`` line shows."""

    def __init__(self, orders: Assignment, group: ProcessGroup, log: Logger) -> None:
        self.orders = orders
        self.group = group
        self.log = log
        self.gpu = Gpu(Slots(orders.directory, orders.gpus), orders.rank, orders.gpu_memory_gb)
        self.timings = {"load_weight": 0.0, "kv_cache_allocation": 0.0, "decode": 0.0}
        self.max_total_num_tokens = int(orders.kv_gb * 2**30 / orders.kv_bytes_per_token) // 64 * 64
        self._checkpoint: mmap.mmap | None = None
        self.init_torch_distributed()
        self.load_model()
        self.init_memory_pool()
        self.init_decode_cuda_graph()

    def init_torch_distributed(self) -> None:
        orders = self.orders
        began = time.monotonic()
        self.log.info("Init parallel begin.")
        _create_c10d_store(self.group)
        self.gpu.take(orders.context_gb)
        orders.pause(orders.seconds["dist-init"] * 0.5)
        if orders.rank == 0 and orders.size > 1:
            self.log.info("sglang is using nccl==2.28.9")
        if orders.size > 2 and not orders.nvlink:
            self.log.info(
                "CustomAllreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence "
                "this warning, specify disable_custom_all_reduce=True explicitly."
            )
        self.gpu.work(0.04, 0.01)
        orders.pause(orders.seconds["dist-init"] * 0.5)
        all_reduce(self.gpu.free_gb, self.group)
        self.gpu.work()
        self.log.info(f"Init parallel ends. elapsed={time.monotonic() - began:.2f} s")
        self.log.info(f"Memory baseline taken. mem usage={orders.context_gb:.2f} GB")

    def load_model(self) -> None:
        orders = self.orders
        began = time.monotonic()
        self.log.info(f"Load weight begin. avail mem={self.gpu.free_gb:.2f} GB")
        self.load_weights()
        self.timings["load_weight"] = time.monotonic() - began
        self.log.info(
            f"Load weight end. elapsed={self.timings['load_weight']:.2f} s, type={orders.architecture}, "
            f"{orders.quantization}, avail mem={self.gpu.free_gb:.2f} GB, mem usage={orders.weights_gb:.2f} GB."
        )
        monitored_barrier(self.group)

    def load_weights(self) -> None:
        """Shard by shard: pages of the checkpoint into this process, gigabytes onto the GPU."""
        orders = self.orders
        descriptor = os.open(os.path.join(orders.directory, CHECKPOINT), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._checkpoint = mmap.mmap(descriptor, CHECKPOINT_BYTES, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        bar = None
        if orders.rank == 0:
            self.log.info("Using model weights format ['*.safetensors']")
            bar = Bar(orders.shards, "Multi-thread loading shards", shards=True)
        self.gpu.work(0.07, 0.05)
        step = CHECKPOINT_BYTES // orders.shards
        for shard in range(orders.shards):
            orders.pause(orders.seconds["weights"] / orders.shards)
            # One byte of every page is enough to have the page mapped.
            self._checkpoint[shard * step : (shard + 1) * step : mmap.PAGESIZE]
            self.gpu.take(orders.weights_gb / orders.shards)
            if bar is not None:
                bar.show(shard + 1)
        if bar is not None:
            bar.close()
        self.gpu.work()

    def init_memory_pool(self) -> None:
        orders = self.orders
        began = time.monotonic()
        group = self.group
        if orders.deadlock:
            # Every rank takes its neighbour for the leader of the ring, so nobody is.
            group = group.led_by((orders.rank + 1) % orders.size)
        # The pool must fit on the fullest GPU.
        all_reduce(self.gpu.free_gb, group)
        orders.pause(orders.seconds["kv-pool"])
        self.gpu.take(orders.kv_gb)
        self.timings["kv_cache_allocation"] = time.monotonic() - began
        self.log.info(
            f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {self.max_total_num_tokens}, "
            f"KV size: {orders.kv_gb:.2f} GB"
        )
        self.log.info(f"Memory pool end. avail mem={self.gpu.free_gb:.2f} GB")

    def init_decode_cuda_graph(self) -> None:
        orders = self.orders
        self.log.info(
            "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled' (e.g. via "
            "--cuda-graph-backend-prefill=disabled or auto-disable rules)."
        )
        if not orders.graphs:
            return
        began = time.monotonic()
        self.log.info(
            "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, "
            f"avail mem={self.gpu.free_gb:.2f} GB"
        )
        bar = Bar(len(CAPTURE_SIZES)) if orders.rank == 0 else None
        for done, size in enumerate(reversed(CAPTURE_SIZES)):
            if bar is not None:
                bar.show(done, f"Capturing batches (bs={size} avail_mem={self.gpu.free_gb:.2f} GB)")
            self.capture_one_batch_size(size)
        if bar is not None:
            bar.show(len(CAPTURE_SIZES))
            bar.close()
        self.gpu.work()
        if orders.rank == 0 and orders.nvlink and orders.size > 1:
            self.log.info(f"Registering {len(CAPTURE_SIZES) * 122} cuda graph addresses")
        barrier(self.group)
        self.timings["decode"] = time.monotonic() - began
        self.log.info(
            f"Capture target decode CUDA graph end. bs={list(CAPTURE_SIZES)}, elapsed={self.timings['decode']:.2f} s, "
            f"mem usage={GRAPHS_GB:.2f} GB, avail mem={self.gpu.free_gb:.2f} GB."
        )

    def capture_one_batch_size(self, size: int) -> None:
        """Two warm-up forwards and the capture; all ranks begin each size together."""
        orders = self.orders
        barrier(self.group)
        self.gpu.work(0.35 + 0.25 * size / CAPTURE_SIZES[-1], 0.3)
        orders.pause(orders.seconds["graphs"] / len(CAPTURE_SIZES))
        self.gpu.take(GRAPHS_GB / len(CAPTURE_SIZES))

    def forward(self, seconds: float) -> None:
        """One step of the model, with the collective that ends every layer."""
        self.gpu.work(0.62, 0.48)
        self.orders.pause(seconds)
        all_reduce(0.0, self.group)
        self.gpu.work()
