"""A session without an agent, for the TUI: states like those of real launches, and a log held in memory.

``python tests/support/fake_session.py SCENARIO`` shows one in the real TUI.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from launchmon.victim import Victim
from launchmon_agent import events
from launchmon_agent.errors import Refused
from launchmon_agent.judge.cluster import Node
from launchmon_agent.log.level import LEVELS
from launchmon_agent.log.only import EVERYTHING, Only
from launchmon_agent.wire import Hello
from tests.support import fake_dumps, fake_relaunch

GIB = 1024**3
T0 = 1_764_400_000.0
"""The target's time at which the fake runs start."""

PHASES = ("start", "spawn", "dist-init", "weights", "kv-pool", "graphs", "http", "warm-up", "ready")


@dataclass(frozen=True)
class FakeCell:
    phase: str
    state: str = "pending"
    begin: float | None = None
    end: float | None = None
    seconds: float | None = None
    slowest_rank: str | None = None
    progress: events.Progress | None = None
    also: tuple[str, ...] = ()


@dataclass
class FakeBoard:
    cells: list[FakeCell] = field(default_factory=lambda: [FakeCell(phase) for phase in PHASES])

    def rail(self, now: float) -> Sequence[FakeCell]:
        return tuple(
            replace(cell, seconds=(now if cell.end is None else cell.end) - cell.begin)
            if cell.begin is not None
            else cell
            for cell in self.cells
        )

    def current(self, rank: str) -> FakeCell | None:
        reached = [cell for cell in self.cells if cell.begin is not None]
        return reached[-1] if reached else None

    def reach(self, *durations: float, progress: events.Progress | None = None) -> None:
        """Phases done with these durations from the start on; the one after them is running, with ``progress``."""
        at, cells = T0, []
        for place, phase in enumerate(PHASES):
            if place < len(durations):
                cells.append(FakeCell(phase, "done", at, at + durations[place]))
                at += durations[place]
            elif place == len(durations):
                cells.append(FakeCell(phase, "running", at, None, progress=progress))
            else:
                cells.append(FakeCell(phase))
        self.cells = cells


@dataclass(frozen=True)
class FakeSamples:
    """Utilisation as in the model's ``history``; all else has been for a minute what it is now."""

    model: FakeModel

    def of_gpu(self, index: int, node: int | None = None) -> Sequence[events.Gpu | None]:
        gpus = () if self.model.gpus is None else self.model.gpus.gpus
        now = next((gpu for gpu in gpus if gpu.index == index), None)
        if now is None:
            return []
        past = self.model.history.get(index, [])
        # Only what curves are drawn of: the cost of the screen is measured on this, 480 samples a second.
        return [events.Gpu(index, memory_used=now.memory_used, util_percent=util, power_w=now.power_w) for util in past]

    def of_rank(self, tag: str, node: int | None = None) -> Sequence[events.Process | None]:
        return [row for row in self.model.rows if row.rank == tag for _ in range(60)]


@dataclass
class FakeModel:
    run: events.Run | None = None
    processes: events.Processes | None = None
    gpus: events.Gpus | None = None
    host: events.Host | None = None
    http: events.Http | None = None
    log: events.Log | None = None
    verdict: events.Verdict | None = None
    exits: list[events.Exit] = field(default_factory=list)
    errors: list[events.LogError] = field(default_factory=list)
    kernel: list[events.Kernel] = field(default_factory=list)
    notices: list[events.Notice] = field(default_factory=list)
    actions: dict[str, list[events.Action]] = field(default_factory=dict)
    stacks: list[events.Stacks] = field(default_factory=list)
    phases: FakeBoard = field(default_factory=FakeBoard)
    now: float = T0
    history: dict[int, list[float | None]] = field(default_factory=dict)
    rows: list[events.Process] = field(default_factory=list)
    all_marks: list[events.Mark] = field(default_factory=list)

    @property
    def samples(self) -> FakeSamples:
        return FakeSamples(self)

    def rank_rows(self) -> Sequence[events.Process]:
        return list(self.rows)

    def last_line_at(self, rank: str) -> float | None:
        if self.log is None:
            return None
        return next((line.at for line in self.log.last if line.rank == rank), None)


@dataclass(frozen=True)
class FakeLink:
    state: str = "live"
    message: str = ""
    since: float = 0.0
    given_up: bool = False


@dataclass(frozen=True)
class FakeLine:
    offset: int
    number: int | None
    text: str
    rank: str | None = None
    cut: bool = False
    level: str = "info"


@dataclass(frozen=True)
class FakeWindow:
    lines: tuple[FakeLine, ...]
    start: int
    end: int
    at_start: bool
    at_end: bool
    size: int
    generation: int


@dataclass(frozen=True)
class FakeFound:
    offset: int | None
    next: int | None = None


@dataclass(frozen=True)
class FakeCounted:
    count: int
    next: int
    done: bool
    unfinished: int = 0
    generation: int = 0


class FakeLog:
    """A log of lines with byte offsets, as the agent would serve it."""

    def __init__(self) -> None:
        self.lines: list[FakeLine] = []
        self.offsets: list[int] = []
        self.size = 0
        self.generation = 0

    def write(self, text: str) -> int:
        """Append a line; returns its offset."""
        tag = re.match(r"\[[^\]]*?((?:DP\d+ )?TP\d+)\]", text)
        level = "error" if "Error" in text or "Traceback" in text else "warning" if "Warning" in text else "info"
        offset = self.size
        self.lines.append(FakeLine(offset, len(self.lines) + 1, text, tag and tag.group(1), level=level))
        self.offsets.append(offset)
        self.size += len(text.encode()) + 1
        return offset

    def replace_all(self) -> None:
        self.lines.clear()
        self.offsets.clear()
        self.size = 0
        self.generation += 1

    def window(self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False) -> FakeWindow:
        place = len(self.lines) if at == "end" else self._place(int(at))
        anchor = self._offset(place)
        early = self._take(range(place - 1, -1, -1), before, only)[::-1]
        late = self._take(range(place, len(self.lines)), after, only)
        start, end = anchor if before == 0 else 0, anchor if after == 0 else self.size
        if before and len(early) == before:
            start = early[0].offset
        if after and len(late) == after:
            end = self._offset(bisect_left(self.offsets, late[-1].offset) + 1)
        lines = (*early, *late)
        return FakeWindow(
            lines=tuple(replace(line, text=f"raw {line.text}") for line in lines) if raw else lines,
            start=start,
            end=end,
            at_start=start == 0,
            at_end=end == self.size,
            size=self.size,
            generation=self.generation,
        )

    def search(self, pattern: str, start: int, forward: bool, regex: bool, only: Only = EVERYTHING) -> FakeFound:
        found = _pattern(pattern, regex)
        place = bisect_left(self.offsets, start)
        order = range(place, len(self.lines)) if forward else range(place - 1, -1, -1)
        for index in order:
            line = self.lines[index]
            if _wanted(line, only) and found.search(line.text):
                return FakeFound(line.offset)
        return FakeFound(None)

    def count(
        self, pattern: str, start: int, stop: int | None, regex: bool, only: Only = EVERYTHING, most: int | None = None
    ) -> FakeCounted:
        """``most`` lines at a time."""
        found = _pattern(pattern, regex)
        begin = bisect_left(self.offsets, start)
        end = len(self.lines) if stop is None else bisect_left(self.offsets, stop)
        upto = end if most is None else min(end, begin + most)
        count = sum(_wanted(line, only) and found.search(line.text) is not None for line in self.lines[begin:upto])
        return FakeCounted(count, self._offset(upto), upto == end, generation=self.generation)

    def _place(self, offset: int) -> int:
        return len(self.lines) if offset >= self.size else max(0, bisect_right(self.offsets, offset) - 1)

    def _offset(self, place: int) -> int:
        return self.offsets[place] if place < len(self.offsets) else self.size

    def _take(self, order: range, count: int, only: Only) -> list[FakeLine]:
        out: list[FakeLine] = []
        for index in order:
            if len(out) == count:
                break
            if _wanted(self.lines[index], only):
                out.append(self.lines[index])
        return out


def _pattern(pattern: str, regex: bool) -> re.Pattern[str]:
    flags = re.IGNORECASE if pattern == pattern.lower() else 0
    try:
        return re.compile(pattern if regex else re.escape(pattern), flags)
    except re.error as error:
        raise Refused(f"not a regular expression: {error}") from None


def _wanted(line: FakeLine, only: Only) -> bool:
    if only.rank is not None and line.rank != only.rank:
        return False
    if only.level is not None and LEVELS.index(line.level) < LEVELS.index(only.level):
        return False
    return only.only is None or _pattern(only.only, only.only_regex).search(line.text) is not None


@dataclass
class FakeSession:
    """Fulfils ``launchmon.session_like.SessionLike``; a test changes its parts and calls :meth:`changed`."""

    model: FakeModel = field(default_factory=FakeModel)
    link: FakeLink = field(default_factory=FakeLink)
    target: str = "this machine"
    read_only: bool = False
    log_is_read: bool = True
    text: FakeLog = field(default_factory=FakeLog)
    plan: list[Victim] = field(default_factory=list)
    refusal: Refused | None = None
    """Raised by every request while it is set."""
    since_event: float | None = 0.4
    """What :meth:`age` says; ``None`` lets it run with the real clock."""
    killed: list[bool] = field(default_factory=list)
    closed: bool = False
    requests: int = 0
    _callbacks: list[Callable[[], None]] = field(default_factory=list)
    _heard: float = field(default_factory=time.monotonic)
    kill_gate: asyncio.Event | None = None
    dumps: list[events.Stacks] = field(default_factory=list)
    """What the next dumps bring, the last of them again and again."""
    dumped: list[tuple[bool, str | None]] = field(default_factory=list)
    dump_gate: asyncio.Event | None = None
    local_log: str | None = None
    counted: list[str] = field(default_factory=list)
    count_gate: asyncio.Event | None = None
    count_most: int | None = None
    """Lines that one slice of a count looks at; ``None``: all."""
    options: dict[str, Any] = field(default_factory=fake_relaunch.options)
    attempts: dict[str, Any] = field(default_factory=fake_relaunch.ledger)
    recorded: list[bytes] = field(default_factory=list)
    """What :meth:`recording` gives."""
    installed: dict[str, str] = field(default_factory=dict)
    hello: Hello | None = None
    nodes: tuple[Node, ...] = ()
    planned: list[dict[str, Any]] = field(default_factory=list)
    relaunched: list[dict[str, Any]] = field(default_factory=list)
    plan_gate: asyncio.Event | None = None
    relaunch_gate: asyncio.Event | None = None
    relaunch_refusal: Refused | None = None
    """Raised by :meth:`relaunch` after what it waits for."""

    retry_s: float | None = None
    tried: int = 0
    """How often another attempt at the link was asked for."""

    def age(self) -> float:
        return time.monotonic() - self._heard if self.since_event is None else self.since_event

    def retry_in(self) -> float | None:
        return self.retry_s

    def try_now(self) -> None:
        self.tried += 1

    async def back(self) -> None:
        pass

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def changed(self) -> None:
        self._heard = time.monotonic()
        for callback in tuple(self._callbacks):
            callback()

    def write(self, *texts: str) -> list[int]:
        """Append lines to the log and tell so."""
        offsets = [self.text.write(text) for text in texts]
        self.sync_log(grown_at=self.model.now)
        return offsets

    def sync_log(self, grown_at: float | None = None) -> None:
        old = self.model.log
        self.model.log = events.Log(
            at=self.model.now,
            size=self.text.size,
            lines=len(self.text.lines),
            indexed=self.text.size,
            scanned=self.text.size,
            generation=self.text.generation,
            grown_at=grown_at if grown_at is not None or old is None else old.grown_at,
            last=() if old is None else old.last,
        )

    async def window(
        self, at: int | str, before: int, after: int, only: Only = EVERYTHING, raw: bool = False
    ) -> FakeWindow:
        self._request()
        return self.text.window(at, before, after, only, raw)

    async def search(
        self, pattern: str, start: int, forward: bool, regex: bool = False, only: Only = EVERYTHING
    ) -> FakeFound:
        self._request()
        return self.text.search(pattern, start, forward, regex, only)

    async def count(
        self, pattern: str, start: int, stop: int | None, regex: bool = False, only: Only = EVERYTHING
    ) -> FakeCounted:
        self._request()
        self.counted.append(pattern)
        if self.count_gate is not None:
            await self.count_gate.wait()
        return self.text.count(pattern, start, stop, regex, only, self.count_most)

    async def place(self, *, line: int | None = None, moment: str | None = None) -> int:
        self._request()
        for one in self.text.lines:
            if one.number == line or (moment is not None and moment in one.text):
                return one.offset
        raise Refused(f"the log has no {'line' if moment is None else 'time'} {moment or line}")

    async def kill_plan(self) -> Sequence[Victim]:
        self._request()
        return list(self.plan)

    async def kill(self, force: bool) -> None:
        self._request()
        self.killed.append(force)
        if self.kill_gate is not None:
            await self.kill_gate.wait()

    async def dump(self, native: bool = False, locals_of: str | None = None) -> events.Stacks:
        self._request()
        self.dumped.append((native, locals_of))
        if self.dump_gate is not None:
            await self.dump_gate.wait()
        found = self.dumps.pop(0) if len(self.dumps) > 1 else self.dumps[0] if self.dumps else self._next_dump()
        found = replace(found, native=native)
        self.model.stacks.append(found)
        self.changed()
        return found

    async def relaunch_options(self) -> dict[str, Any]:
        self._request()
        return self.options

    async def relaunch_plan(self, **change: Any) -> dict[str, Any]:
        self._request()
        self.planned.append(change)
        if self.plan_gate is not None:
            await self.plan_gate.wait()
        return fake_relaunch.plan(change)

    async def relaunch(self, **change: Any) -> events.Run:
        """The model is another one afterwards, and the log is the new run's."""
        self._request()
        self.relaunched.append(change)
        if self.relaunch_gate is not None:
            await self.relaunch_gate.wait()
        if self.relaunch_refusal is not None:
            raise self.relaunch_refusal
        old = self.model.run
        assert old is not None
        run = replace(old, id=f"{old.id}-next", attempt=old.attempt + 1, parent=old.id, at=self.model.now)
        self.model, self.text = FakeModel(run=run, now=self.model.now + 1), FakeLog()
        self.changed()
        return run

    async def ledger(self, run: str | None = None) -> dict[str, Any]:
        self._request()
        return self.attempts

    async def recording(self) -> list[bytes]:
        self._request()
        return list(self.recorded)

    async def software(self) -> dict[str, str]:
        self._request()
        return self.installed

    def _next_dump(self) -> events.Stacks:
        number = len(self.model.stacks) + 1
        return fake_dumps.odd_one(self.model.now - 0.4, max(1, len(self.model.rows)), number=number)

    async def close(self) -> None:
        self.closed = True

    def _request(self) -> None:
        self.requests += 1
        if self.refusal is not None:
            raise self.refusal


# ----------------------------------------------------------------------------------------------------------- scenarios


def empty() -> FakeSession:
    """Connected, and nothing was heard yet."""
    return FakeSession()


def seed(ranks: int = 8, quiet_s: float = 298.0) -> FakeSession:
    """The story of a 547 GB model: weights in, then a dead-lock while the KV pool is made."""
    session = _launched(ranks)
    model = session.model
    model.phases.reach(4.2, 6.1, 9.0, 22.3)
    stalled = T0 + 41.6
    model.now = stalled + quiet_s
    _fill_log(session, ranks)
    _sample(session, ranks, memory=76.0, util=0.0, watts=85.0, cpu=0.0, blocked="futex_do_wait", silent_since=stalled)
    for index in range(ranks):
        model.history[index] = [*[0.0] * 40, 30.0, 55.0, 80.0, 60.0, 10.0, *[0.0] * 15]
    model.verdict = events.Verdict(
        at=model.now,
        verdict="deadlock-silent",
        confidence="high",
        summary=(
            f"{ranks} of {ranks} ranks have done nothing for 4m58s, "
            "all in all_reduce ‹ init_memory_pool. No rank is behind."
        ),
        ruled_out=(
            events.RuledOut("crash", f"{ranks}/{ranks} alive"),
            events.RuledOut("compile", "0 compilers"),
            events.RuledOut("disk", "0 B/s"),
            events.RuledOut("memory", "33/1000 GiB, GPUs equal"),
        ),
        evidence=(events.Evidence("log", "no byte for 4m58s"), events.Evidence("CPU", "0.0% in every process tree")),
        unknown=("stacks: ptrace refused (kernel.yama.ptrace_scope is 1)",),
        next=(events.Next("relaunch", ("--disable-cuda-graph",), "cures this kind of wait in public reports"),),
    )
    return session


def loading(ranks: int = 8) -> FakeSession:
    """Reading weights, five of eight shards in."""
    session = _launched(ranks)
    model = session.model
    bar = events.Progress(
        at=T0, rank="TP3", phase="weights", label="Loading", done=5, total=8, percent=62.0, eta_s=12.0
    )
    model.phases.reach(4.2, 6.1, 9.0, progress=bar)
    running = model.phases.cells[3]
    model.phases.cells[3] = replace(running, slowest_rank="TP3")
    model.now = T0 + 33.0
    _fill_log(session, ranks)
    _sample(
        session, ranks, memory=41.3, util=7.0, watts=121.0, cpu=96.4, blocked=None, silent_since=T0 + 31.0, read=1.3e9
    )
    for index in range(ranks):
        model.history[index] = [float((7 * step + 13 * index) % 40) for step in range(33)]
    model.verdict = events.Verdict(
        at=model.now,
        verdict="reading",
        confidence="high",
        summary="Weights are being read at 10.4 GB/s: 5 of 8 shards after 14s, about 12s to go.",
        ruled_out=(events.RuledOut("stall", "bytes move on every rank"),),
    )
    return session


def ready(ranks: int = 2) -> FakeSession:
    """Serving, quiet."""
    session = _launched(ranks)
    model = session.model
    model.phases.reach(4.2, 6.1, 9.0, 22.3, 1.8, 16.4, 2.0, 3.1)
    last = model.phases.cells[-1]
    model.phases.cells[-1] = replace(last, state="done", end=last.begin)
    model.phases.cells[5] = replace(model.phases.cells[5], state="skipped")
    model.now = T0 + 4000.0
    _fill_log(session, ranks)
    _sample(session, ranks, memory=88.9, util=0.0, watts=92.0, cpu=100.0, blocked=None, silent_since=T0 + 70.0)
    model.http = events.Http(
        at=model.now,
        port=30000,
        owner_pid=48001,
        ours=True,
        listening=True,
        model_info=200,
        ready=200,
        running=0,
        queued=0,
    )
    model.verdict = events.Verdict(at=model.now, verdict="ready", confidence="high", summary="Ready after 1m05s.")
    return session


def crashed(ranks: int = 2) -> FakeSession:
    """A rank was killed by the kernel while it read weights."""
    session = _launched(ranks)
    model = session.model
    model.phases.reach(4.2, 6.1, 9.0)
    model.phases.cells[3] = replace(model.phases.cells[3], state="failed", end=T0 + 27.0, slowest_rank="TP1")
    model.now = T0 + 40.0
    _fill_log(session, ranks)
    (at,) = session.write("[2025-11-29 18:00:27 TP1] Scheduler hit an exception: Traceback (most recent call last):")
    session.write('  File "scheduler.py", line 12, in run', "RuntimeError: CUDA error: out of memory")
    _sample(session, ranks, memory=0.4, util=None, watts=None, cpu=0.0, blocked="do_wait", silent_since=T0 + 27.0)
    model.rows[1] = replace(model.rows[1], pid=0)
    model.exits.append(events.Exit(at=T0 + 27.5, pid=48101, role="scheduler", rank="TP1", code=-9))
    model.errors.append(
        events.LogError(
            at=T0 + 27, rank="TP1", offset=at, id="traceback", severity="fatal", text="Scheduler hit an exception"
        )
    )
    model.verdict = events.Verdict(
        at=model.now,
        verdict="crashed",
        confidence="high",
        summary="TP1 was ended by SIGKILL 13s ago, in weights; the others are its victims.",
        blames=("TP1",),
    )
    return session


def no_gpu(ranks: int = 2) -> FakeSession:
    """A machine without NVIDIA's library."""
    session = ready(ranks)
    session.model.gpus = events.Gpus(at=session.model.now, source="none", error="no libnvidia-ml.so.1 on this machine")
    return session


def kept(ranks: int = 8) -> FakeSession:
    """The dead-lock, of which launchmon has kept dumps: one rank waits for a lock."""
    session = seed(ranks)
    for number, before_s in enumerate((150.0, 145.0, 140.0), 1):
        at = session.model.now - before_s
        session.model.stacks.append(fake_dumps.odd_one(at, ranks, automatic=True, number=number))
    return session


SCENARIOS = {
    "empty": empty,
    "seed": seed,
    "loading": loading,
    "ready": ready,
    "crashed": crashed,
    "no-gpu": no_gpu,
    "kept": kept,
}


def _launched(ranks: int) -> FakeSession:
    session = FakeSession(target="root@gpu7")
    session.model.run = events.Run(
        at=T0,
        id="20251129-180000-kimi",
        argv=("python3", "-m", "sglang.launch_server", "--model-path", "/models/kimi-k2.5"),
        pid=48001,
        start_time=T0,
        launched=True,
        model="/models/kimi-k2.5",
        tp=ranks,
        port=30000,
        log="server.log",
        log_source="file",
        series="kimi",
        attempt=3,
    )
    session.plan = [
        Victim(48001, "launcher", None, "python3 -m sglang.launch_server"),
        *(Victim(48100 + rank, "scheduler", f"TP{rank}", f"sglang::scheduler_TP{rank}") for rank in range(ranks)),
        Victim(48150, "detokenizer", None, "sglang::detokenizer"),
    ]
    return session


def _fill_log(session: FakeSession, ranks: int) -> None:
    log = session.text
    log.write(
        "[2025-11-29 18:00:04] server_args=ServerArgs(model_path='/models/kimi-k2.5', " + "flag=False, " * 40 + ")"
    )
    for rank in range(ranks):
        log.write(f"[2025-11-29 18:00:10 TP{rank}] Init torch distributed begin.")
    for shard in range(1, 9):
        log.write(
            f"Loading safetensors checkpoint shards: {100 * shard // 8:>3}% Completed "
            f"| {shard}/8 [00:1{shard}<00:0{8 - shard}]"
        )
    for step in range(24):
        for rank in range(ranks):
            log.write(
                f"[2025-11-29 18:00:{12 + step:02d} TP{rank}] Load weight step {step}. mem usage={step * 3.1:.2f} GB."
            )
    for rank in range(ranks):
        log.write(
            f"[2025-11-29 18:00:41 TP{rank}] Load weight end. elapsed=22.31 s, type=KimiForCausalLM, mem usage=68.4 GB."
        )
    session.sync_log(grown_at=T0 + 41.6)


def _sample(
    session: FakeSession,
    ranks: int,
    *,
    memory: float,
    util: float | None,
    watts: float | None,
    cpu: float,
    blocked: str | None,
    silent_since: float,
    read: float = 0.0,
) -> None:
    model = session.model
    at = model.now
    model.gpus = events.Gpus(
        at=at,
        driver="570.86",
        gpus=tuple(
            events.Gpu(
                index=index,
                name="NVIDIA RTX PRO 6000 Blackwell",
                memory_used=int(memory * GIB),
                memory_total=96 * GIB,
                memory_slope=read and read * 0.9,
                util_percent=util,
                power_w=watts,
                power_limit_w=600.0,
                temperature_c=41.0 + index % 3,
            )
            for index in range(ranks)
        ),
    )
    model.rows = [
        events.Process(
            pid=48100 + rank,
            start_time=T0 + 5,
            role="scheduler",
            rank=f"TP{rank}",
            title=f"sglang::scheduler_TP{rank}",
            state="S" if blocked else "R",
            cpu_percent=cpu,
            tree_cpu_percent=cpu,
            rss_anon=int(3.9 * GIB),
            rss_file=79 * GIB,
            read_bps=read,
            blocked_in=blocked,
            gpu=rank,
        )
        for rank in range(ranks)
    ]
    launcher = events.Process(pid=48001, start_time=T0, role="launcher", state="S")
    detokenizer = events.Process(pid=48150, start_time=T0 + 5, role="detokenizer", state="S")
    model.processes = events.Processes(at=at, processes=(launcher, *model.rows, detokenizer))
    model.host = events.Host(
        at=at,
        memory_total=1007 * GIB,
        memory_available=974 * GIB,
        shm_total=504 * GIB,
        shm_used=int(1.2 * GIB),
        load1=3.1,
        cpus=96,
        cpu_percent=4.0,
        disk_read_bps=read * ranks,
        disk_write_bps=0.0,
        net_rx_bps=12_000.0,
        net_tx_bps=9_000.0,
    )
    model.http = events.Http(at=at, port=30000, listening=False)
    if model.log is not None:
        last = tuple(events.LastLine(f"TP{rank}", silent_since, "Load weight end.") for rank in range(ranks))
        model.log = replace(model.log, last=last)


async def _play(session: FakeSession) -> None:
    """Let time pass: a sample a second."""
    session.since_event = None
    began, first = time.monotonic(), session.model.now
    while True:
        await asyncio.sleep(1)
        session.model.now = first + time.monotonic() - began
        session.changed()


def main() -> None:
    from launchmon.connect import Asker
    from launchmon.tui.app import run_app

    scenario = SCENARIOS[sys.argv[1] if len(sys.argv) > 1 else "seed"]
    playing: list[asyncio.Task[None]] = []

    async def open_session(_: Asker) -> FakeSession:
        session = scenario()
        playing.append(asyncio.create_task(_play(session)))
        return session

    run_app(open_session)


if __name__ == "__main__":
    main()
