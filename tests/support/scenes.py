"""Every screen in the states that a person meets, on fake sessions and recordings: what snapshots and walks are of.

python -m tests.support.scenes NAME [WIDTHxHEIGHT]      prints one
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from launchmon.config import Config, Effective
from launchmon.connect import Asker
from launchmon.listed import Found, Place
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon.session_like import SessionLike
from launchmon.tui.app import LaunchmonApp
from launchmon.tui.beginning import Beginnings
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.widgets.lines import Lines
from launchmon_agent import events
from launchmon_agent.errors import Refused
from tests.support import fake_dumps
from tests.support import fake_session as fake
from tests.support.fake_launcher import FakeLauncher
from tests.support.fake_nodes import FakeNode, opened, played, settled
from tests.support.fake_session import FakeLink, FakeSession
from tests.support.replaying import seed_lines
from tests.support.tui_rig import PLAIN, Rig, painted_when_settled

Size = tuple[int, int]

SIZES: tuple[Size, ...] = ((80, 24), (120, 40), (200, 60))
RUN_SIZES: tuple[Size, ...] = (*SIZES, (60, 20), (50, 60))
"""Of the main screen also a quarter of a small terminal, and a tall narrow pane."""

SMALL: tuple[Size, ...] = ((80, 24),)
"""Of a screen that differs little from another: where there is least room."""


@dataclass(frozen=True)
class Scene:
    """A screen in one state: an app, and the keys that lead there."""

    name: str
    app: Callable[[Config], LaunchmonApp]
    keys: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    """What must be on the screen whatever its size."""
    sizes: tuple[Size, ...] = SIZES
    notices: bool = False
    """What appears in the corner is part of it."""


@contextmanager
def nowhere() -> Iterator[None]:
    """The same time zone everywhere, and a directory of its own for what an action writes."""
    zone, here = os.environ.get("TZ"), os.getcwd()
    with tempfile.TemporaryDirectory(prefix="lm-scene-") as empty:
        os.environ["TZ"] = "UTC"
        time.tzset()
        os.chdir(empty)
        try:
            yield
        finally:
            os.chdir(here)
            if zone is None:
                del os.environ["TZ"]
            else:
                os.environ["TZ"] = zone
            time.tzset()


@asynccontextmanager
async def shown(scene: Scene, size: Size, config: Config = PLAIN) -> AsyncIterator[Rig]:
    """The scene in an app of this size, all of it painted."""
    with nowhere(), painted_when_settled():
        app = scene.app(config)
        async with app.run_test(size=size, notifications=True) as pilot:
            rig = Rig(app, pilot, fake.empty())
            await rig.settle()
            if isinstance(app.session, FakeSession):
                rig.session = app.session
            if isinstance(app.screen, RunScreen):
                app.screen.look()
                await rig.settle()
            await rig.press(*scene.keys)
            _only_lasting(app, scene.notices)
            await rig.settle()
            _paint_anew(app)
            await rig.settle()
            yield rig


def _paint_anew(app: LaunchmonApp) -> None:
    """What has lost or got the focus meanwhile has its new colours at its next line, which never comes here."""
    for widget in app.screen.query(Lines):
        widget.notify_style_update()
        widget.refresh()


def _only_lasting(app: LaunchmonApp, last: bool) -> None:
    """No notice is there for as long as a test happens to take, but the ``last`` where it is wanted."""
    notices = list(app._notifications)
    app.clear_notifications()
    if last:
        app.notify(notices[-1].message, timeout=3600, markup=False)


# ------------------------------------------------------------------------------------------------------------- sessions


def on(make: Callable[[], SessionLike]) -> Callable[[Config], LaunchmonApp]:
    """An app on this session."""

    def app(config: Config) -> LaunchmonApp:
        async def open_session(_: Asker) -> SessionLike:
            return make()

        return LaunchmonApp(open_session, settings=Effective(config), environment={})

    return app


def on_nodes(number: int) -> Callable[[Config], LaunchmonApp]:
    """An app on a run of so many nodes."""

    def app(config: Config) -> LaunchmonApp:
        async def open_session(_: Asker) -> SessionLike:
            nodes = [FakeNode(played(place, of=number, tp=4 * number)) for place in range(number)]
            session = await opened(*nodes)
            session.age = lambda: 0.4  # type: ignore[method-assign]
            await session.attach()
            await settled()
            return session

        return LaunchmonApp(open_session, settings=Effective(config), environment={})

    return app


def compiling() -> FakeSession:
    """A rank builds kernels while the others wait for it."""
    session = fake.loading()
    model = session.model
    model.phases.reach(4.2, 6.1, 9.0, 22.3, 1.8)
    model.now = fake.T0 + 180.0
    session.write(
        "[2025-11-29 18:00:44 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=14.20 GB",
        "[2025-11-29 18:00:44 TP3] DeepGEMM JIT: building gemm_fp8_nt for 64 shapes",
    )
    rows = [
        replace(row, read_bps=0.0, state="S", cpu_percent=0.0, tree_cpu_percent=0.0, blocked_in="futex_do_wait")
        for row in model.rows
    ]
    rows[3] = replace(
        rows[3], cpu_percent=2.0, tree_cpu_percent=1570.0, children={"nvcc": 4, "cicc": 4, "ptxas": 8}, blocked_in=None
    )
    model.rows = rows
    assert model.processes is not None
    others = [one for one in model.processes.processes if one.role != "scheduler"]
    model.processes = events.Processes(at=model.now, processes=(others[0], *rows, *others[1:]))
    model.verdict = events.Verdict(
        at=model.now,
        verdict="compiling",
        confidence="high",
        summary="TP3 compiles kernels: 16 compilers on 15.7 cores. The other 7 ranks wait for it, which is no fault.",
        evidence=(events.Evidence("compilers", "4 nvcc, 4 cicc, 8 ptxas below TP3"),),
        ruled_out=(events.RuledOut("deadlock", "16 compilers work"),),
    )
    return session


def lost() -> FakeSession:
    """The link to another machine is gone, and is tried again."""
    session = fake.loading()
    session.link = FakeLink("lost", "connection reset by peer", since=fake.T0)
    session.since_event, session.retry_s = 12.0, 4.0
    return session


def refused() -> FakeSession:
    """No stacks can be read; the kernel says where each waits."""
    session = fake.seed()
    session.dumps = [fake_dumps.kernel_view(fake_dumps.odd_one(session.model.now - 0.4))]
    return session


class _Stopped(FakeSession):
    async def kill(self, force: bool) -> None:
        await super().kill(force)
        steps = (
            ("term", "TERM to the launcher, pid 48001"),
            ("grace", "the ranks have 30 s to end by themselves"),
            ("kill", "KILL to 8 ranks"),
            ("sweep", "nothing of the run is left; port 30000 is free; the GPUs have their memory back"),
        )
        self.model.actions["kill-1"] = [
            events.Action(at=self.model.now, id="kill-1", action="kill", step=step, state="done", text=text)
            for step, text in steps
        ]


def stopping() -> FakeSession:
    session = fake.seed()
    return _Stopped(model=session.model, text=session.text, target=session.target, plan=session.plan)


def reported() -> FakeSession:
    session = fake.kept()
    session.recorded = [line for line in seed_lines() if b'"samples"' not in line]
    return session


def replay(at: float) -> Callable[[], ReplaySession]:
    """The recorded demo, so many seconds into it."""

    def make() -> ReplaySession:
        session = ReplaySession(Recorded(seed_lines()), "this machine")
        session.to_time(session.recorded.begin + at)
        return session

    return make


RUNS = (
    Found("kimi-k2-5", 1, "/models/kimi-k2.5", 8, 30000, "kv-pool", launched=True, pid=48001, age_s=340.0),
    Found("qwen3", 2, "Qwen/Qwen3-235B-A22B", 4, 30001, "ready", launched=False, pid=51200, age_s=86_000.0),
    Found("kimi-k2-5", 3, "/models/kimi-k2.5", 8, 30000, "crashed", alive=False, launched=True, age_s=4_000.0),
)
PLACES = (Place("root@gpu7", 1, "2m ago"), Place("gpu8", 2, "SSH configuration"))


def home(runs: Sequence[Found], refusal: Refused | None = None) -> Callable[[Config], LaunchmonApp]:
    """The list of runs; where one is picked, ``refusal`` is why it cannot be opened."""

    async def pick(_: Asker) -> Sequence[Found]:
        return runs

    async def pick_there(place: Place, _: Asker) -> Sequence[Found]:
        return RUNS[:2]

    async def begin(_: Place | None, __: Asker) -> FakeLauncher:
        return FakeLauncher()

    async def begin_demo() -> SessionLike:
        return fake.seed()

    async def attach(_: Found, __: Asker) -> SessionLike:
        if refusal is not None:
            raise refusal
        return fake.kept()

    def app(config: Config) -> LaunchmonApp:
        return LaunchmonApp(
            None,
            pick=pick,
            places=lambda: PLACES,
            pick_there=pick_there,
            attach=attach,
            beginnings=Beginnings(begin, begin_demo),
            settings=Effective(config),
            environment={},
        )

    return app


GONE = Refused("the run cannot be opened", "its keeper does not answer", "launchmon attach --pid 48001")

DEAD_LOCK = ("DEAD-LOCK", "◉ kv pool")
SCENES: tuple[Scene, ...] = (
    Scene("connected", on(fake.empty), says=("launchmon",), sizes=((80, 24), (60, 20))),
    Scene("healthy-loading", on(fake.loading), says=("READING", "◉ weights"), sizes=RUN_SIZES),
    Scene("ready", on(fake.ready), says=("READY",), sizes=RUN_SIZES),
    Scene("dead-lock", on(fake.kept), says=DEAD_LOCK, sizes=RUN_SIZES),
    Scene("crash", on(fake.crashed), says=("CRASHED", "✗ weights"), sizes=RUN_SIZES),
    Scene("compile", on(compiling), says=("COMPILING", "◉ graphs"), sizes=RUN_SIZES),
    Scene("link-lost", on(lost), says=("READING", "12 s"), sizes=RUN_SIZES),
    Scene("without-gpus", on(fake.no_gpu), says=("READY", "no libnvidia-ml"), sizes=((80, 24), (60, 20))),
    Scene("expanded-ranks", on(fake.kept), ("tab", "tab", "tab", "z"), DEAD_LOCK, ((80, 24), (60, 20))),
    Scene("log-search", on(fake.kept), ("home", "slash", *"step 7", "enter"), ("step 7",), RUN_SIZES),
    Scene("log-prompt", on(fake.kept), ("slash", *"Memory pool"), DEAD_LOCK, ((80, 24), (60, 20))),
    Scene("log-filtered", on(fake.kept), ("3", "w"), DEAD_LOCK, ((80, 24), (60, 20))),
    Scene("replay", on(replay(60)), says=(*DEAD_LOCK, "REPLAY"), sizes=RUN_SIZES),
    Scene("nodes", on_nodes(2), says=("NODE",), sizes=RUN_SIZES),
    Scene("verdict", on(fake.kept), ("v",), ("DEAD-LOCK",)),
    Scene("stacks", on(fake.kept), ("d",), ("STACKS",)),
    Scene("stacks-threads", on(fake.kept), ("d", "t"), ("STACKS",), sizes=SMALL),
    Scene("stacks-compare", on(fake.kept), ("d", "c"), ("STACKS",), sizes=SMALL),
    Scene("stacks-refused", on(refused), ("d",), ("STACKS",), sizes=SMALL),
    Scene("relaunch", on(fake.kept), ("r",), ("REMEDIES", "WHAT CHANGES")),
    Scene("relaunch-add", on(fake.kept), ("r", "a", *"--tp=4"), ("REMEDIES", "--tp=4"), sizes=SMALL),
    Scene("relaunch-start", on(fake.kept), ("r", "enter"), ("Start attempt 4?",), sizes=SMALL),
    Scene("ladder", on(fake.kept), ("r", "l"), ("Esc",), sizes=SMALL),
    Scene("attempts", on(fake.kept), ("a",), ("★",)),
    Scene("kill", on(fake.kept), ("k",), ("Kill kimi", "Esc")),
    Scene("killed", on(stopping), ("k", "y"), ("is stopped",), sizes=SMALL),
    Scene("report", on(reported), ("s",), ("hidden:",), notices=True),
    Scene("help", on(fake.kept), ("question_mark",), ("this screen",)),
    Scene("home", home(RUNS), says=("kimi-k2-5", "other machines")),
    Scene(
        "launch", home(()), ("n", "down", "enter", *"/models/kimi-k2.5", "enter"), ("--model-path /models/kimi-k2.5",)
    ),
    Scene("home-empty", home(()), says=("No SGLang run was found",), sizes=SMALL),
    Scene("home-refused", home(RUNS, GONE), ("enter",), ("its keeper does not answer",), sizes=SMALL),
)


def named(name: str) -> Scene:
    return next(scene for scene in SCENES if scene.name == name)


async def _print(scene: Scene, size: Size) -> None:
    from tests.support.still import faults, take

    async with shown(scene, size) as rig:
        print(take(rig.app).text)
        print("\n".join(faults(rig.app)), file=sys.stderr)


if __name__ == "__main__":
    across, _, down = (sys.argv[2] if len(sys.argv) > 2 else "80x24").partition("x")
    asyncio.run(_print(named(sys.argv[1]), (int(across), int(down))))
