"""What sensors find: processes, GPUs, the host, the port, signs of life, collectives, the kernel, exits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from launchmon_agent.events.base import Event


@dataclass(frozen=True)
class Process:
    """One process of the run at one moment."""

    pid: int
    start_time: float  # seconds since the epoch; a pid is never acted on without it
    role: str  # launcher | scheduler | detokenizer | dp-controller | tokenizer | spawning | helper
    ppid: int | None = None
    rank: str | None = None  # the tag as in the log, "DP1 TP0"; schedulers only. An untagged single rank is "TP0"
    named_by: str | None = None  # title | order: a rank is named by its place until it has a title
    title: str | None = None
    state: str | None = None  # R S D T Z …
    cpu_percent: float | None = None  # of one core, since the sample before
    tree_cpu_percent: float | None = None  # with its children (compilers burn CPU there)
    threads: int | None = None
    rss_anon: int | None = None
    rss_file: int | None = None
    rss_shmem: int | None = None
    read_bps: float | None = None
    write_bps: float | None = None
    major_faults: int | None = None  # since the start of the process
    context_switches: int | None = None  # since the start of the process, all kinds
    blocked_in: str | None = None  # where its main thread waits: wchan, or else the system call
    children: dict[str, int] = field(default_factory=dict)  # kind → count: {"nvcc": 2}
    gpu: int | None = None
    gpu_memory: int | None = None
    gpu_mapped_by: str | None = None  # pid | nspid | order
    node: int | None = None  # of a view of several nodes; the agent of one leaves it out, here and below

    @property
    def rss(self) -> int | None:
        parts = [part for part in (self.rss_anon, self.rss_file, self.rss_shmem) if part is not None]
        return sum(parts) if parts else None


@dataclass(frozen=True)
class Processes(Event):
    """All processes of the run, launcher first, then ranks in order, then the rest."""

    kind: ClassVar[str] = "processes"
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True)
class GpuProcess:
    pid: int  # as NVML gives it: the host's pid, also inside a container
    memory: int | None = None


@dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    memory_slope: float | None = None  # bytes per second since the sample before
    util_percent: float | None = None
    memory_util_percent: float | None = None  # of the memory controller
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    throttle: tuple[str, ...] = ()
    ecc_uncorrected: int | None = None
    pcie_rx_bps: float | None = None
    pcie_tx_bps: float | None = None
    processes: tuple[GpuProcess, ...] = ()
    error: str | None = None  # why this GPU gives no values ("GPU is lost")
    node: int | None = None


@dataclass(frozen=True)
class Gpus(Event):
    """All GPUs. ``source`` says where the values come from; ``error`` why there are none."""

    kind: ClassVar[str] = "gpus"
    source: str = "nvml"  # nvml | simulated | none
    driver: str | None = None
    error: str | None = None
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class Host(Event):
    kind: ClassVar[str] = "host"
    memory_total: int | None = None
    memory_available: int | None = None
    swap_used: int | None = None
    shm_total: int | None = None
    shm_used: int | None = None
    load1: float | None = None
    cpus: int | None = None
    cpu_percent: float | None = None  # of all cores, 0…100
    disk_read_bps: float | None = None
    disk_write_bps: float | None = None
    net_rx_bps: float | None = None
    net_tx_bps: float | None = None
    filesystems: dict[str, str] = field(default_factory=dict)  # what ("model", "cache") → filesystem type
    cgroup_memory_limit: int | None = None
    cgroup_memory_used: int | None = None
    cgroup_oom_kills: int | None = None


@dataclass(frozen=True)
class Http(Event):
    """The server's port: who holds it, and what the cheap endpoints said."""

    kind: ClassVar[str] = "http"
    port: int | None = None
    owner_pid: int | None = None  # the process that listens there; None with listening=True: not readable
    ours: bool | None = None  # the owner belongs to this run; None: cannot be known
    listening: bool | None = None
    model_info: int | None = None  # HTTP status of /model_info; 0: no answer in time
    ready: int | None = None  # HTTP status of /ready (0.5.20+); 0: no answer in time
    model_path: str | None = None  # what the owner says it serves
    running: int | None = None  # requests, from /metrics where enabled
    queued: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Beat:
    """What one replica's rank 0 last wrote into its load file, which it does on every turn of its event loop."""

    pid: int
    start_time: float
    rank: str | None = None
    initialised: bool | None = None  # its event loop has turned at least once
    age_s: float | None = None  # since it wrote; grows while the replica is stuck, is near 0 while it idles
    running: int | None = None  # requests
    waiting: int | None = None  # requests
    token_usage: float | None = None  # share of the KV pool, 0…1
    gen_throughput: float | None = None  # tokens per second


@dataclass(frozen=True)
class Heartbeat(Event):
    """Signs of life of each replica (SGLang 0.5.13+), in the order of ranks. Empty: none publishes any."""

    kind: ClassVar[str] = "heartbeat"
    beats: tuple[Beat, ...] = ()


@dataclass(frozen=True)
class CollectiveRank:
    """One rank of one communicator, as NCCL counts it."""

    rank: int  # within the communicator
    host: str | None = None  # address
    pid: int | None = None  # as the process itself sees it: in a container not the host's
    ours: bool | None = None  # the process belongs to this run; null: it is on another node, or cannot be told
    gpu: int | None = None  # NVML index
    state: str | None = None  # init | running | finalize | abort | error | no-answer | dead | no-communicator
    counts: dict[str, int] = field(default_factory=dict)  # collective → launches so far; empty: not told


@dataclass(frozen=True)
class Communicator:
    """One NCCL communicator. Of a text answer only the ranks that stand out are listed."""

    id: str  # its hash
    size: int | None = None  # ranks that it should have
    ranks: tuple[CollectiveRank, ...] = ()


@dataclass(frozen=True)
class Ras(Event):
    """An answer of NCCL's RAS (NCCL 2.24+): which collectives each rank has launched, on all nodes."""

    kind: ClassVar[str] = "ras"
    address: str | None = None  # that was asked
    nccl: str | None = None  # version
    form: str | None = None  # json | text
    answered: str | None = None  # the time in the answer, by its clock; the same twice is no new answer
    timeouts: int | None = None  # processes that did not answer NCCL in time
    communicators: tuple[Communicator, ...] = ()
    error: str | None = None  # why there is no answer, or none to rely on


@dataclass(frozen=True)
class Kernel(Event):
    """A kernel message that names hardware trouble or one of our processes."""

    kind: ClassVar[str] = "kernel"
    what: str = ""  # xid | nvrm | oom-kill | segfault
    text: str = ""
    pid: int | None = None


@dataclass(frozen=True)
class Exit(Event):
    """A process of the run has ended. ``code`` as the shell's: None when it could not be learnt, -N for signal N."""

    kind: ClassVar[str] = "exit"
    pid: int = 0
    start_time: float | None = None
    role: str = ""
    rank: str | None = None
    code: int | None = None
    node: int | None = None
