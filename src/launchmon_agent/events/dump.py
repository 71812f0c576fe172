"""A dump: the stacks of all ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from launchmon_agent.events.base import Event


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
