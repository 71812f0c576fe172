"""The run itself, and what is known of it from beside it: earlier runs, its SGLang, its model, what others left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from launchmon_agent.events.base import Event


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
