"""A run told second by second, as the stream of events that the agent would make of it.

A story holds what is true (``rank("TP3", read_bps=0)``) until it is told otherwise; each second becomes the samples of
that second. Log lines are real wording, read by the real scanner. Where the story gives its ranks stacks, a stall is
answered by three automatic dumps 5 s apart, as the agent does.

    story = Story(tp=8).up_to("kv-pool")
    story.quiet(at=31).stacks(ALL_REDUCE)
    played = story.play(90)
    assert played.first("deadlock-silent") <= 31 + 30
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from launchmon_agent.events import (
    LAUNCHER,
    Beat,
    Event,
    Exit,
    Gpu,
    Gpus,
    Heartbeat,
    Host,
    Http,
    Kernel,
    Log,
    LogError,
    Mark,
    Process,
    Processes,
    Progress,
    RankStack,
    Run,
    Stacks,
    Verdict,
)
from launchmon_agent.judge.verdict import judge, stall
from launchmon_agent.judge.window import EvidenceWindow
from launchmon_agent.log.marks import MarkScanner
from launchmon_agent.model import RunModel
from launchmon_agent.sglang.ranks import expected_ranks
from launchmon_agent.sglang.run import run_from_args
from tests.support.stacks_text import dump

T0 = 1764439200.0
"""Second 0 of every story; the log's stamps are in UTC."""

GIB = 1024**3
LAUNCHER_PID = 100
DEADLOCKS = ("deadlock-silent", "deadlock-spinning", "deadlock-divergent")

IDLE = {"tree_cpu_percent": 0.0, "cpu_percent": 0.0, "read_bps": 0.0, "write_bps": 0.0, "state": "S"}
BUSY = {"tree_cpu_percent": 100.0, "cpu_percent": 100.0, "state": "R"}
GPU_IDLE = {"util_percent": 0.0, "power_w": 85.0, "memory_util_percent": 0.0}
GPU_SPINS = {"util_percent": 100.0, "power_w": 115.0, "memory_util_percent": 0.0}
GPU_WORKS = {"util_percent": 100.0, "power_w": 520.0, "memory_util_percent": 40.0}

ARGS = (
    "server_args=ServerArgs(model_path='/models/m', tp_size={tp}, pp_size=1, dp_size={dp}, nnodes={nnodes}, "
    "node_rank={node_rank}, host='127.0.0.1', port=30000, dist_init_addr={address!r})"
)

PHASES: dict[str, tuple[float, tuple[str, ...]]] = {
    # phase: second at which it begins when nothing is slow, and what each rank says then
    "dist-init": (16.0, ("Init torch distributed begin.",)),
    "weights": (
        19.0,
        ("Init torch distributed ends. elapsed=2.90 s, mem usage=0.50 GB", "Load weight begin. avail mem=90.00 GB"),
    ),
    "kv-pool": (
        30.0,
        ("Load weight end. elapsed=11.00 s, type=LlamaForCausalLM, avail mem=30.00 GB, mem usage=60.00 GB.",),
    ),
    "graphs": (
        32.0,
        (
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 100000, K size: 10.00 GB, V size: 10.00 GB",
            "Memory pool end. avail mem=8.00 GB",
            "Capture cuda graph begin. This can take up to several minutes. avail mem=8.00 GB",
        ),
    ),
    "http": (
        42.0,
        (
            "Capture cuda graph end. Time elapsed: 10.00 s. mem usage=1.00 GB. avail mem=7.00 GB.",
            "max_total_num_tokens=9999, max_prefill_tokens=16384, max_running_requests=2048, context_len=4096",
        ),
    ),
}
ORDER = ("start", "spawn", "dist-init", "weights", "kv-pool", "graphs", "http", "warm-up", "ready")


@dataclass
class Played:
    """What the judge said at every second."""

    verdicts: list[tuple[float, Verdict]]
    stalls: list[float]
    model: RunModel
    events: list[Event] = field(default_factory=list)

    def at(self, second: float) -> Verdict:
        return next(verdict for at, verdict in self.verdicts if at >= second)

    def watched_from(self, second: float) -> Played:
        """As someone sees it who attaches then: the log from its beginning, everything else from then on."""
        model, window = RunModel(), EvidenceWindow()
        late = Played([], [], model)
        from_log = (Run, Mark, Progress, LogError)
        pending = [event for event in self.events if event.at - T0 >= second or isinstance(event, from_log)]
        for event in pending:
            if event.at - T0 < second:
                model.fold(event)
                window.fold(event)
        rest = [event for event in pending if event.at - T0 >= second]
        for at, _ in self.verdicts:
            if at < second:
                continue
            while rest and rest[0].at - T0 <= at:
                event = rest.pop(0)
                model.fold(event)
                window.fold(event)
            late.verdicts.append((at, judge(model, window, T0 + at)))
        return late

    @property
    def last(self) -> Verdict:
        return self.verdicts[-1][1]

    def first(self, kind: str) -> float:
        """Second at which this kind was said first; infinity when it never was."""
        return next((at for at, verdict in self.verdicts if verdict.verdict == kind), float("inf"))

    @property
    def kinds(self) -> set[str]:
        return {verdict.verdict for _, verdict in self.verdicts}

    def kinds_until(self, second: float) -> set[str]:
        return {verdict.verdict for at, verdict in self.verdicts if at < second}


class Story:
    """See the module. Times are seconds from its beginning."""

    def __init__(
        self,
        tp: int = 8,
        *,
        dp: int = 1,
        nnodes: int = 1,
        node_rank: int = 0,
        gpus: bool = True,
        address: str | None = None,
        argv: Sequence[str] = (),
    ) -> None:
        self.run = Run(
            T0, id="story", argv=tuple(argv), pid=LAUNCHER_PID, start_time=T0, tp=tp, dp=dp, nnodes=nnodes,
            node_rank=node_rank, port=30000, launched=True,
        )  # fmt: skip
        self.ranks = expected_ranks(self.run)
        self.address = address
        self._todo: list[tuple[float, int, Callable[[], Iterable[Event] | None]]] = []
        self._processes: dict[str, dict[str, Any]] = {LAUNCHER: {"role": LAUNCHER, "pid": LAUNCHER_PID, **BUSY}}
        self._gpus: dict[int, dict[str, Any]] = {}
        if gpus:
            self._gpus = {
                index: {"memory_used": GIB // 2, "memory_total": 96 * GIB, "power_limit_w": 600.0, **GPU_IDLE}
                for index in range(len(self.ranks))
            }
        self._host: dict[str, Any] = {"memory_total": 1000 * GIB, "memory_available": 967 * GIB}
        self._http: dict[str, Any] | None = None
        self._beats: dict[str, dict[str, Any]] = {}
        self._stacks: dict[str, str] = {}
        self._refused: str | None = None
        self._text = b""
        self._read = 0
        self._grown_at: float | None = None
        self._counters: dict[str, dict[str, float]] = {}

    # ------------------------------------------------------------------------------------------------------- telling

    def do(self, at: float, what: Callable[[], Iterable[Event] | None]) -> Story:
        self._todo.append((at, len(self._todo), what))
        return self

    def rank(self, name: str, at: float, **fields: Any) -> Story:
        """Fields of :class:`Process`; ``read_bps``, ``tree_cpu_percent``, ``children`` … ``faults_ps`` per second."""

        def change() -> None:
            if name in self._processes or "pid" in fields:  # what has ended stays ended
                self._processes.setdefault(name, {}).update(fields)

        return self.do(at, change)

    def all(self, at: float, **fields: Any) -> Story:
        for name in self.ranks:
            self.rank(name, at, **fields)
        return self

    def gpu(self, index: int | None, at: float, **fields: Any) -> Story:
        """``index`` None: all of them."""
        for number in self._gpus if index is None else [index]:
            self.do(at, lambda number=number: self._gpus[number].update(fields))  # type: ignore[misc]
        return self

    def host(self, at: float, **fields: Any) -> Story:
        return self.do(at, lambda: self._host.update(fields))

    def http(self, at: float, **fields: Any) -> Story:
        def change() -> None:
            self._http = {"port": 30000, **(self._http or {}), **fields}

        return self.do(at, change)

    def beat(self, at: float, **fields: Any) -> Story:
        """``age_s`` and counts of TP0's heartbeat; with ``stopped_at`` its age grows from then on."""
        return self.do(at, lambda: self._beats.setdefault(self.ranks[0], {}).update(fields))

    def says(self, at: float, who: str, message: str, *, end: str = "\n") -> Story:
        """A log line of a rank or the launcher, with SGLang's prefix; a ``bar`` has none."""
        stamp = datetime.fromtimestamp(T0 + at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        tag = "" if who in (LAUNCHER, "bar") or len(self.ranks) == 1 else f" {who}"
        line = f"{message}{end}" if who == "bar" else f"[{stamp}{tag}] {message}{end}"
        return self.do(at, lambda: self._append(line.encode(), at))

    def bare(self, at: float, text: str) -> Story:
        """Lines without a prefix."""
        return self.do(at, lambda: self._append(text.encode() + b"\n", at))

    def quiet(self, at: float, *names: str) -> Story:
        """These ranks (all by default) do nothing from then on, nor do their GPUs."""
        for name in names or self.ranks:
            self.rank(name, at, children={}, faults_ps=0.0, rss_growth=0.0, **IDLE)
            index = self.ranks.index(name)
            if index in self._gpus:
                self.gpu(index, at, growth=0.0, **GPU_IDLE)
        return self

    def dies(self, at: float, name: str, code: int | None = -9) -> Story:
        def change() -> Iterable[Event]:
            gone = self._processes.pop(name)
            role = LAUNCHER if name == LAUNCHER else "scheduler"
            tag = None if name == LAUNCHER else name
            yield Exit(T0 + at, gone["pid"], T0 + gone.get("begin", 0.0), role, tag, code)

        return self.do(at, change)

    def forget(self, name: str) -> None:
        """It is gone, and nobody saw it end."""
        self._processes.pop(name)

    def kernel(self, at: float, what: str, text: str, pid: int | None = None) -> Story:
        return self.do(at, lambda: [Kernel(T0 + at, what, text, pid)])

    def event(self, event: Event) -> Story:
        return self.do(event.at - T0, lambda: [event])

    def stacks(self, text: str, *names: str, at: float = 0.0) -> Story:
        """Where these ranks (all by default) are, if someone looks."""
        return self.do(at, lambda: self._stacks.update(dict.fromkeys(names or self.ranks, text)))

    def refuse_stacks(self, problem: str) -> Story:
        self._refused = problem
        return self

    def up_to(self, phase: str, *, late: float = 0.0) -> Story:
        """A healthy launch until all ranks have entered ``phase``. ``late``: everything from there on is later."""
        last = ORDER.index(phase)
        address = self.address
        args = ARGS.format(
            tp=self.run.tp, dp=self.run.dp, nnodes=self.run.nnodes, node_rank=self.run.node_rank, address=address
        )
        if last >= ORDER.index("spawn"):
            self.says(5, LAUNCHER, args)
            self._spawn(6)
        self.rank(LAUNCHER, 6, **IDLE)
        if last >= ORDER.index("dist-init"):
            for name in self.ranks:
                self.rank(name, 15, named_by="title", title=f"sglang::scheduler_{name}")
            self.all(16, tree_cpu_percent=40.0, cpu_percent=40.0)
        for reached, (at, lines) in PHASES.items():
            if ORDER.index(reached) <= last:
                for name in self.ranks:
                    for line in lines:
                        self.says(at, name, line)
        if last >= ORDER.index("weights"):
            self.reads(19, 500e6)
        if last >= ORDER.index("kv-pool"):
            self.quiet(30)
            self.all(30, tree_cpu_percent=80.0, cpu_percent=80.0)
        if last >= ORDER.index("graphs"):
            self.all(32, tree_cpu_percent=100.0, cpu_percent=100.0)
            self.gpu(None, 32, util_percent=30.0, power_w=250.0)
        if last >= ORDER.index("http"):
            self.quiet(42)
            self.all(42, tree_cpu_percent=70.0, cpu_percent=70.0, state="R")
        if last >= ORDER.index("warm-up"):
            self.says(43, LAUNCHER, "INFO:     Started server process [100]")
            self.says(43, LAUNCHER, "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)")
            self.http(43, listening=True, ours=True, owner_pid=LAUNCHER_PID, model_info=200)
        if last >= ORDER.index("ready"):
            self.says(44, self.ranks[0], "Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0")
            self.says(46, LAUNCHER, "The server is fired up and ready to roll!")
        return self

    def _spawn(self, at: float) -> None:
        for place, name in enumerate(self.ranks):
            self.rank(
                name, at, role="scheduler", rank=name, pid=200 + place, begin=at, named_by="order", gpu=place,
                gpu_mapped_by="pid", rss_anon=4 * GIB, rss_file=0, major_faults=0, context_switches=0,
                read_bps=0.0, write_bps=0.0, **BUSY,
            )  # fmt: skip

    def reads(self, at: float, bps: float, *names: str) -> Story:
        """Bytes from a disk into the GPUs, at a rate for each rank."""
        for name in names or self.ranks:
            self.rank(name, at, read_bps=bps, tree_cpu_percent=min(90.0, bps / 5e6), state="S")
            index = self.ranks.index(name)
            if index in self._gpus:
                self.gpu(index, at, growth=bps)
        return self

    # ------------------------------------------------------------------------------------------------------- playing

    def play(self, seconds: float) -> Played:
        model, window, scanner = RunModel(), EvidenceWindow(), MarkScanner()
        played = Played([], [], model)
        todo = sorted(self._todo, key=lambda item: item[:2])
        dumps: list[float] = []
        was_stalled = False

        def take(event: Event) -> None:
            model.fold(event)
            window.fold(event)
            played.events.append(event)
            if isinstance(event, Mark) and event.id == "args" and model.run is not None:
                take(dataclasses.replace(run_from_args(model.run, event), at=event.at))

        take(self.run)
        for second in range(int(seconds) + 1):
            now = T0 + second
            while todo and todo[0][0] <= second:
                for event in todo.pop(0)[2]() or ():
                    take(event)
            for event in self._sample(now, scanner):
                take(event)
            if dumps and dumps[0] <= second:
                dumps.pop(0)
                take(self._dump(now))
            played.verdicts.append((float(second), judge(model, window, now)))
            stalled = stall(model, window, now)
            if stalled and not was_stalled:
                played.stalls.append(float(second))
                if self._stacks or self._refused:
                    dumps = [second + 1.0, second + 6.0, second + 11.0]
            was_stalled = stalled
        return played

    def _sample(self, now: float, scanner: MarkScanner) -> Iterable[Event]:
        yield Gpus(now, gpus=tuple(self._gpu(index, fields) for index, fields in self._gpus.items()), error=(
            None if self._gpus else "no NVML"))  # fmt: skip
        yield Host(now, **self._host)
        yield Processes(now, processes=tuple(self._process(name, fields) for name, fields in self._processes.items()))
        if len(self._text) > self._read:
            yield from scanner.feed(self._read, self._text[self._read :], now)
            self._read = len(self._text)
        yield Log(now, size=self._read, grown_at=self._grown_at, last=scanner.last_lines())
        if self._http is not None:
            yield Http(now, **self._http)
        if self._beats:
            yield Heartbeat(now, tuple(self._beat(name, fields, now) for name, fields in self._beats.items()))

    def _gpu(self, index: int, fields: dict[str, Any]) -> Gpu:
        growth = fields.get("growth", 0.0)
        fields["memory_used"] = min(int(fields["memory_used"] + growth), fields["memory_total"])
        return Gpu(index, **{name: value for name, value in fields.items() if name != "growth"})

    def _process(self, name: str, fields: dict[str, Any]) -> Process:
        own = dict(fields)
        counters = self._counters.setdefault(name, {"major_faults": 0.0, "rss_file": 0.0})
        counters["major_faults"] += own.pop("faults_ps", 0.0)
        counters["rss_file"] += own.pop("rss_growth", 0.0)
        if "major_faults" in own and own["major_faults"] is not None:
            own["major_faults"] = int(counters["major_faults"])
            own["rss_file"] = int(counters["rss_file"])
        return Process(start_time=T0 + own.pop("begin", 0.0), **own)

    def _beat(self, name: str, fields: dict[str, Any], now: float) -> Beat:
        own = dict(fields)
        stopped = own.pop("stopped_at", None)
        if stopped is not None:
            own["age_s"] = max(0.0, now - T0 - stopped)
        return Beat(self._processes.get(name, {}).get("pid", 0), T0, name, initialised=True, **own)

    def _dump(self, now: float) -> Stacks:
        if self._refused is not None:
            refused = tuple(
                RankStack(
                    200 + place, T0, "scheduler", name, problem=self._refused, cure="sysctl kernel.yama.ptrace_scope=0"
                )
                for place, name in enumerate(self.ranks)
            )
            return Stacks(now, id=f"refused-{now}", automatic=True, stacks=refused)
        return dataclasses.replace(dump(self._stacks, at=now), automatic=True)

    def _append(self, data: bytes, at: float) -> None:
        self._text += data
        self._grown_at = T0 + at
