"""The vocabulary: every fact that travels or is recorded, and its wire format (one JSON object a line).

An event is a frozen dataclass with a ``kind`` and ``at``: seconds since the epoch on the target. Sizes are bytes,
rates bytes per second, times seconds, utilisations percent. ``None`` means "not known", never zero.

Reading is tolerant so that versions can meet: unknown fields are dropped, missing ones take their default, and an
unknown kind becomes :class:`Other`, which keeps the original object. ``docs/recording-format.md`` describes the format.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Union

PROTOCOL = 1
"""Raised when an old reader could misread a new stream. New kinds and new optional fields do not raise it."""

LAUNCHER = "launcher"
"""The ``rank`` of marks and errors that belong to the launcher rather than to a scheduler."""


@dataclass(frozen=True)
class Event:
    kind: ClassVar[str] = ""
    at: float


# -------------------------------------------------------------------------------------------------------------- the run


@dataclass(frozen=True)
class Run(Event):
    """What is known of the run itself. Sent first, and again whenever something in it changes."""

    kind: ClassVar[str] = "run"
    id: str
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    pid: int | None = None  # the launcher
    start_time: float | None = None  # of the launcher; with pid it names one process for ever
    launched: bool = False  # by launchmon, hence with a keeper
    name: str | None = None
    engine: str = "sglang"
    engine_version: str | None = None
    interpreter: str | None = None
    model: str | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    attention_dp: bool = False  # --enable-dp-attention: dp divides tp instead of multiplying it
    ep: int = 1  # experts are split over so many ranks
    attn_cp: int = 1  # context parallelism of attention
    moe_dp: int = 1  # data parallelism of the experts
    nnodes: int = 1
    node_rank: int = 0
    host: str | None = None
    port: int | None = None
    log: str | None = None  # path on the target, or the command or pane it is read from
    log_source: str | None = None  # file | tee | tmux | command | none
    series: str | None = None
    attempt: int = 1
    parent: str | None = None  # run id of the attempt before
    preparations: tuple[str, ...] = ()  # what was set for a launched run, in words
    variables: dict[str, str] = field(
        default_factory=dict
    )  # of its environment, those that explain something; no secrets
    limits: dict[str, int] = field(default_factory=dict)  # of the launcher: "open-files", "locked-memory" (bytes)
    simulated: bool = False

    @property
    def ranks_here(self) -> int:
        """How many schedulers this node should have."""
        world = self.tp * self.pp * (1 if self.attention_dp else self.dp)
        return max(1, world // max(1, self.nnodes))


# ---------------------------------------------------------------------------------------------------------- the samples


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
    blocked_in: str | None = None  # wchan
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
class Expected(Event):
    """How long phases took in earlier runs on this target: same model, release and sizes, newest twelve."""

    kind: ClassVar[str] = "expected"
    runs: int = 0  # that it is taken from
    warm: bool | None = None  # the model's files were read since the machine started, as in those runs
    usual: dict[str, float] = field(default_factory=dict)  # phase → median, seconds
    longest: dict[str, float] = field(default_factory=dict)  # phase → seconds


@dataclass(frozen=True)
class Installed(Event):
    """The command, and what launchmon may suggest, held against the flags of the installed SGLang."""

    kind: ClassVar[str] = "installed"
    version: str | None = None
    lacks: tuple[str, ...] = ()  # flags that launchmon may suggest and that this SGLang does not have
    unknown: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # flag of the command that it does not take → those that it does and that look like it, the likeliest first


@dataclass(frozen=True)
class ModelFiles(Event):
    """The files of the model's weights on this machine. Sent again when they change: while they are downloaded."""

    kind: ClassVar[str] = "files"
    path: str | None = None  # their directory
    total: int | None = None  # bytes, of all that are to be loaded
    here: int | None = None  # bytes of them that have arrived
    unfinished: int = 0  # files that are being downloaded, or were left so


@dataclass(frozen=True)
class Orphan:
    """A process of an earlier launch that has lost its launcher."""

    pid: int
    start_time: float
    title: str
    ports: tuple[int, ...] = ()  # on which it listens


@dataclass(frozen=True)
class Leftovers(Event):
    """What earlier launches left running on this machine. Sent when it changes."""

    kind: ClassVar[str] = "leftovers"
    orphans: tuple[Orphan, ...] = ()


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


# -------------------------------------------------------------------------------------------------------------- the log


@dataclass(frozen=True)
class Mark(Event):
    """A log line that begins, ends or informs about a phase. ``at`` is the line's own time."""

    kind: ClassVar[str] = "mark"
    id: str = ""  # row of sglang/marks.table: "weights", "graph", …
    what: str = ""  # begin | end | info | skip | fail
    phase: str | None = None  # its name, or None where the mark only informs
    rank: str = LAUNCHER
    offset: int = 0  # of the line in the log, bytes
    text: str = ""  # the message without its prefix, at most 300 characters
    values: dict[str, str] = field(default_factory=dict)  # named groups of the pattern: {"s": "12.3", "gb": "4.5"}


@dataclass(frozen=True)
class Progress(Event):
    """The newest refresh of a progress bar."""

    kind: ClassVar[str] = "progress"
    rank: str = LAUNCHER
    phase: str | None = None
    label: str = ""
    done: int = 0
    total: int = 0
    percent: float | None = None
    eta_s: float | None = None
    rate: str | None = None


@dataclass(frozen=True)
class LogError(Event):
    """The first line of an error in the log, with its last line once that is known."""

    kind: ClassVar[str] = "error"
    rank: str = LAUNCHER
    offset: int = 0
    id: str = ""  # row of sglang/errors.table
    severity: str = "error"  # fatal | error | consequence | warning
    text: str = ""  # at most 300 characters
    detail: str | None = None  # last line of a traceback: "RuntimeError: …"
    node: int | None = None


@dataclass(frozen=True)
class LastLine:
    rank: str
    at: float
    text: str  # at most 300 characters, control sequences made visible
    offset: int = 0


@dataclass(frozen=True)
class Log(Event):
    """The state of the log as a file. Sent when it changes, four times a second at most."""

    kind: ClassVar[str] = "log"
    size: int = 0
    lines: int | None = None  # of the part indexed so far
    indexed: int = 0  # bytes
    scanned: int = 0  # bytes searched for marks
    generation: int = 0  # raised when the file is rotated, truncated or replaced: offsets start again
    launch_offset: int = 0  # where the newest launch in this file begins
    grown_at: float | None = None  # when the last byte arrived
    last: tuple[LastLine, ...] = ()  # of each rank
    error: str | None = None
    file: str | None = None  # names the file, for one who was away: under another name, offsets are of another file
    node: int | None = None


# ----------------------------------------------------------------------------------------------------------- the stacks


@dataclass(frozen=True)
class Frame:
    """One place in code. A dump lists each once; its threads refer to it by its place in that list."""

    function: str  # qualified ("GroupCoordinator.barrier") from Python 3.11, else bare, as the means gave it
    file: str = ""  # whole path on the target; of a native frame the library; empty: unknown
    line: int | None = None
    native: bool = False  # not Python: C, C++, or the kernel
    locals: dict[str, str] = field(default_factory=dict)  # name → text, secrets hidden; where they were asked for


@dataclass(frozen=True)
class Thread:
    frames: tuple[int, ...] = ()  # innermost first: places in the frames of the dump
    name: str | None = None
    os_id: int | None = None  # as the means gave it
    main: bool = False
    active: bool | None = None  # it runs rather than sleeps, as far as the means can tell
    owns_gil: bool | None = None


@dataclass(frozen=True)
class RankStack:
    """What one process of the run was doing. Without threads, ``problem`` says why."""

    pid: int
    start_time: float
    role: str  # as of Process
    rank: str | None = None
    node: int | None = None  # of a run on several nodes
    python: str | None = None  # "3.11"
    means: str | None = None  # py-spy | py-spy --nonblocking | faulthandler | proc; None: nothing could be read
    state_before: str | None = None  # R S D T Z …
    state_after: str | None = None
    seconds: float | None = None  # that the reading took
    problem: str | None = None  # why there are no stacks, or less than was asked for
    cure: str | None = None  # one command or step that helps against the problem
    continued: bool = False  # it was found stopped afterwards, which it had not been, and was continued
    threads: tuple[Thread, ...] = ()

    @property
    def who(self) -> str:
        return self.rank or self.role


@dataclass(frozen=True)
class Stacks(Event):
    """A dump: the stacks of all ranks and of what started them, taken at about one moment."""

    kind: ClassVar[str] = "stacks"
    id: str = ""  # of the dump, unique within the run
    automatic: bool = False  # nobody asked: a stall began
    native: bool = False  # native frames were asked for
    seconds: float | None = None  # that the dump took
    frames: tuple[Frame, ...] = ()
    stacks: tuple[RankStack, ...] = ()  # launcher first, then the ranks in order


# ---------------------------------------------------------------------------------------------- conclusions and actions


@dataclass(frozen=True)
class Evidence:
    what: str
    value: str


@dataclass(frozen=True)
class RuledOut:
    kind: str
    because: str


@dataclass(frozen=True)
class Next:
    do: str  # relaunch | dump | wait | kill | run
    change: tuple[str, ...] = ()
    why: str = ""
    source: str = ""


@dataclass(frozen=True)
class Countdown:
    """A timeout that will end the wait by itself."""

    name: str
    ends_in_s: float  # from the time of the verdict
    effect: str = ""


@dataclass(frozen=True)
class Verdict(Event):
    """What the judge concludes."""

    kind: ClassVar[str] = "verdict"
    verdict: str = "unknown"
    confidence: str = "low"  # high | medium | low
    summary: str = ""
    blames: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    unknown: tuple[str, ...] = ()
    next: tuple[Next, ...] = ()
    clocks: tuple[Countdown, ...] = ()  # that run, the next to end first
    quiet_s: float | None = None  # for how long nothing has moved; null: something does, or it is not known


@dataclass(frozen=True)
class Action(Event):
    """One step of something a person asked for (a kill, a relaunch). Steps of one action share its ``id``."""

    kind: ClassVar[str] = "action"
    action: str = ""  # kill | launch | relaunch
    id: str = ""
    step: str = ""  # TERM launcher | wait | KILL ranks | sweep | done | …
    state: str = ""  # doing | done | failed
    text: str = ""


@dataclass(frozen=True)
class Notice(Event):
    """Something a person should know about the watching itself: a missing capability, a lost file."""

    kind: ClassVar[str] = "notice"
    source: str = ""  # gpu | processes | log | http | kernel | host | keeper | recording
    text: str = ""


@dataclass(frozen=True)
class Other(Event):
    """An event of a kind that this version does not know. Kept whole, shown nowhere."""

    kind: ClassVar[str] = "other"
    original: dict[str, Any] = field(default_factory=dict)


KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        Run,
        Processes,
        Gpus,
        Host,
        Http,
        Heartbeat,
        Ras,
        Expected,
        Installed,
        ModelFiles,
        Leftovers,
        Kernel,
        Exit,
        Mark,
        Progress,
        LogError,
        Log,
        Stacks,
        Verdict,
        Action,
        Notice,
    )
}


# ---------------------------------------------------------------------------------------------------------- wire format


_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
YEAR_1, YEAR_10000 = -62135596800, 253402300800
"""Seconds since the epoch: what ``datetime`` can tell lies between them."""

MOST = 2**64
"""No number that an event tells is larger, counters of the kernel included."""

_PLAIN = frozenset((str, int, bool, type(None)))


class Malformed(ValueError):
    """A line is not an event: no JSON object, no ``kind``, or a field of the wrong shape."""


def encode(event: Event) -> bytes:
    """One line, newline included. Fields at their default are left out."""
    if isinstance(event, Other):
        body = event.original
    else:
        body = {"kind": event.kind, **to_json(event)}
    return _ENCODER.encode(body).encode("ascii") + b"\n"


def decode(line: bytes | str) -> Event:
    """Raises :class:`Malformed`."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    return from_body(body)


def from_body(body: Any) -> Event:
    """An event from its parsed JSON object. Raises :class:`Malformed`."""
    if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
        raise Malformed("an event is a JSON object with a kind")
    cls = KINDS.get(body["kind"])
    at = body.get("at")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not YEAR_1 <= at < YEAR_10000:
        raise Malformed("an event has a time, at")
    if cls is None:
        return Other(at=float(at), original=body)
    event: Event = from_json(cls, body)
    return event


def to_json(value: Any) -> Any:
    """A dataclass as plain JSON values, without the fields that are at their default."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return round(value, 3) if value == value and abs(value) != float("inf") else None
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if not dataclasses.is_dataclass(kind):
        return value
    out = {}
    for name, default in _defaults(kind):
        item = getattr(value, name)
        if item is not default and item != default:
            out[name] = item if type(item) in _PLAIN else to_json(item)
    return out


def from_json(cls: Any, body: Any) -> Any:
    """A dataclass from plain JSON values. Raises :class:`Malformed` where a value has the wrong shape."""
    if not isinstance(body, dict):
        raise Malformed(f"{cls.__name__} is a JSON object, not {type(body).__name__}")
    known = {}
    for name, reader, required in _readers(cls):
        if name in body:
            try:
                known[name] = reader(body[name])
            except Malformed as error:
                raise Malformed(f"{cls.__name__}.{name}: {error}") from None
        elif required:
            raise Malformed(f"{cls.__name__}.{name} is missing")
    return cls(**known)


_MISSING = object()


@functools.cache
def _defaults(cls: Any) -> tuple[tuple[str, Any], ...]:
    out = []
    for spec in dataclasses.fields(cls):
        if spec.default is not dataclasses.MISSING:
            default = spec.default
        elif spec.default_factory is not dataclasses.MISSING:
            default = spec.default_factory()
        else:
            default = _MISSING
        out.append((spec.name, default))
    return tuple(out)


@functools.cache
def _readers(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(cls)
    required = {name for name, default in _defaults(cls) if default is _MISSING}
    return tuple((spec.name, _reader(hints[spec.name]), spec.name in required) for spec in dataclasses.fields(cls))


def _reader(hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [_reader(part) for part in typing.get_args(hint) if part is not type(None)]
        (one,) = inner  # the vocabulary has no unions but "or None"
        return lambda value: None if value is None else one(value)
    if origin is tuple:
        item = _reader(typing.get_args(hint)[0])
        return lambda value: tuple(item(part) for part in _expect(value, list))
    if origin is dict:
        item = _reader(typing.get_args(hint)[1])
        return lambda value: {str(key): item(part) for key, part in _expect(value, dict).items()}
    if dataclasses.is_dataclass(hint):
        return functools.partial(from_json, hint)
    if hint is float:
        return _float
    if hint is int:
        return _int
    if hint in (str, bool):
        return lambda value: _expect(value, hint)
    return lambda value: value


def _float(value: Any) -> float:
    if not -MOST <= _expect(value, (int, float)) <= MOST:  # nor is NaN
        raise Malformed("a number beyond all measure")
    return float(value)


def _int(value: Any) -> int:
    if not -MOST <= _expect(value, int) <= MOST:
        raise Malformed("a number beyond all measure")
    number: int = value
    return number


def _expect(value: Any, wanted: Any) -> Any:
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise Malformed(f"unexpected {type(value).__name__}")
    return value
