"""What a rank is told at its birth."""

from __future__ import annotations

import time


class Assignment:
    """Plain values only, and a plain class: a rank imports as little as it can. Sizes in GB of 2**30 bytes."""

    def __init__(
        self,
        *,
        launcher: int,
        directory: str,
        rank: int,
        size: int,
        speed: float,
        seconds: dict[str, float],
        gpus: int,
        gpu_memory_gb: float,
        context_gb: float,
        weights_gb: float,
        kv_gb: float,
        kv_bytes_per_token: int,
        shards: int,
        architecture: str,
        quantization: str,
        context_len: int,
        nvlink: bool,
        graphs: bool,
        deadlock: bool,
        traffic_s: float,
    ) -> None:
        self.launcher = launcher  # pid
        self.directory = directory  # of the run: GPU slots and checkpoint
        self.rank = rank
        self.size = size
        self.speed = speed
        self.seconds = seconds  # of each phase, at speed 1
        self.gpus = gpus
        self.gpu_memory_gb = gpu_memory_gb
        self.context_gb = context_gb
        self.weights_gb = weights_gb
        self.kv_gb = kv_gb
        self.kv_bytes_per_token = kv_bytes_per_token
        self.shards = shards
        self.architecture = architecture
        self.quantization = quantization
        self.context_len = context_len
        self.nvlink = nvlink
        self.graphs = graphs
        self.deadlock = deadlock
        self.traffic_s = traffic_s

    @property
    def tag(self) -> str:
        """As in the log; a single rank has none, as in SGLang from 0.4.6 on."""
        return f"TP{self.rank}" if self.size > 1 else ""

    def pause(self, seconds: float) -> None:
        """Seconds at speed 1."""
        time.sleep(seconds / self.speed)
