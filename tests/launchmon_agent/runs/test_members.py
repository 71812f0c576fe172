"""Which processes belong to a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from launchmon_agent.runs.members import Identity, Snapshot, learn, members
from launchmon_agent.sensors.proc import TICKS, Stat

SPAWN = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=5)"]
TRACKER = ["python", "-c", "from multiprocessing.resource_tracker import main;main(4)"]
LAUNCHER = ["python", "-m", "sglang.launch_server", "--tp", "2"]
OWN = 900


@dataclass
class World:
    """A made-up process table. Start times are seconds on the same clock as Stat's."""

    rows: dict[int, Stat] = field(default_factory=dict)
    argv: dict[int, list[str]] = field(default_factory=dict)
    environ: dict[int, dict[str, str]] = field(default_factory=dict)
    links: dict[int, dict[int, str]] = field(default_factory=dict)

    def add(
        self,
        pid: int,
        ppid: int,
        argv: list[str],
        start: float = 100.0,
        session: int = 50,
        group: int = 60,
        run_id: str | None = None,
        state: str = "S",
    ) -> World:
        ticks = int(start * TICKS)
        self.rows[pid] = Stat(pid, "x", state, ppid, group, session, 0, 0, 0, 0, 0, 1, ticks, True, 0)
        self.argv[pid] = argv
        self.environ[pid] = {} if run_id is None else {"SGLANG_RUN_ID": run_id}
        return self

    def without(self, *pids: int) -> World:
        rows = {pid: row for pid, row in self.rows.items() if pid not in pids}
        for pid, row in rows.items():
            if row.ppid in pids:
                rows[pid] = row._replace(ppid=1)
        return World(rows, self.argv, self.environ, self.links)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.rows,
            argv_of=lambda pid: self.argv[pid],
            environ_of=self.environ.get,
            links_of=self.links.get,
            own_pid=OWN,
        )

    def start(self, pid: int) -> float:
        return self.rows[pid].start_time


def server(world: World, pid: int, session: int, group: int, start: float = 100.0, ppid: int = 50) -> World:
    """A launcher with two ranks and a tracker: pids ``pid`` to ``pid + 3``."""
    run_id = f"run-{pid}"
    world.add(pid, ppid, LAUNCHER, start, session, group)
    world.add(pid + 1, pid, TRACKER, start + 5, session, group, run_id)
    world.add(pid + 2, pid, ["sglang::scheduler_TP0"], start + 5, session, group, run_id)
    world.add(pid + 3, pid, SPAWN, start + 6, session, group, run_id)
    return world


def shell() -> World:
    """PID 1, a login shell (50) that is its session's leader, and ourselves (900) as a job of it."""
    world = World()
    world.add(1, 0, ["init"], 1.0, 1, 1)
    world.add(50, 1, ["-bash"], 10.0, 50, 50)
    return world.add(OWN, 50, ["launchmon"], 300.0, 50, OWN)


def identity(world: World, pid: int, launched: bool = False, log: str | None = None) -> Identity:
    return Identity(pid, world.start(pid), launched, log)


def test_a_foreign_run_is_its_launcher_and_what_descends_from_it() -> None:
    world = server(shell(), 60, 50, 60)
    world.add(70, 62, ["nvcc"], 120.0, 50, 60).add(80, 50, ["vim"], 120.0, 50, 80)
    assert members(identity(world, 60), [], world.snapshot()) == [60, 61, 62, 63, 70]


def test_orphans_of_a_foreign_run_are_found_by_what_they_shared_with_it() -> None:
    world = server(shell(), 60, 50, 60)
    run = learn(identity(world, 60), members(identity(world, 60), [], world.snapshot()), world.snapshot())
    left = world.without(60)
    assert members(run, [], left.snapshot()) == [61, 62, 63]


def test_an_orphan_that_a_subreaper_in_the_same_session_was_given_is_found() -> None:
    world = server(shell(), 60, 50, 60)
    run = learn(identity(world, 60), [60, 61, 62], world.snapshot())
    left = world.without(60)
    left.rows[62] = left.rows[62]._replace(ppid=50)
    assert 62 in members(run, [], left.snapshot())


def test_neighbours_in_the_same_session_and_group_are_not_of_the_run() -> None:
    world = server(server(shell(), 60, 50, 60), 160, 50, 60)  # a script that started two servers
    world.add(260, 50, ["python", "train.py"], 101.0, 50, 60)
    world.add(261, 260, SPAWN, 102.0, 50, 60)
    first = members(identity(world, 60), [], world.snapshot())
    assert first == [60, 61, 62, 63]
    run = learn(identity(world, 60), first, world.snapshot())
    assert members(run, [], world.without(60).snapshot()) == [61, 62, 63]
    both = world.without(60, 160)
    assert members(run, [], both.snapshot()) == [61, 62, 63], "another run's orphans have another run id"


def test_orphans_without_a_run_id_are_taken_from_the_launchers_own_group_only() -> None:
    world = server(shell(), 60, 50, 60)
    run = learn(identity(world, 60), [60, 61, 62, 63], world.snapshot())
    left = world.without(60)
    left.add(64, 1, ["sglang::detokenizer"], 106.0, 50, 60)
    left.add(65, 1, ["sglang::detokenizer"], 106.0, 50, 65)
    found = members(run, [], left.snapshot())
    assert 64 in found
    assert 65 not in found


def test_older_processes_are_not_of_the_run() -> None:
    world = server(shell(), 60, 50, 60)
    world.add(64, 1, ["sglang::detokenizer"], 20.0, 50, 60)
    assert 64 not in members(identity(world, 60), [], world.snapshot())


def test_another_process_under_the_launchers_pid_is_a_stranger() -> None:
    world = server(shell(), 60, 50, 60)
    run = Identity(60, world.start(60) - 1000)
    assert members(run, [], world.snapshot()) == []


def test_what_was_seen_before_stays_of_the_run_with_its_children() -> None:
    world = server(shell(), 60, 50, 60)
    known = [(62, world.start(62)), (63, world.start(63) - 500)]
    left = world.without(60)
    left.add(70, 62, ["nvcc"], 120.0, 70, 70)
    assert members(Identity(60, world.start(60)), known, left.snapshot()) == [62, 70], "63 is another process by now"


def test_a_launched_run_is_its_whole_session() -> None:
    world = server(shell(), 60, 60, 60)
    world.add(70, 1, ["sleep"], 120.0, 60, 70)
    assert members(identity(world, 60, launched=True), [], world.snapshot()) == [60, 61, 62, 63, 70]


def test_without_its_launcher_a_session_is_known_by_one_who_was_seen_in_it() -> None:
    world = server(shell(), 60, 60, 60)
    world.add(70, 1, ["sleep"], 120.0, 60, 70)
    run = identity(world, 60, launched=True)
    known = [(62, world.start(62))]
    assert members(run, known, world.without(60).snapshot()) == [61, 62, 63, 70]


def test_without_its_launcher_a_session_is_known_by_its_log() -> None:
    world = server(shell(), 60, 60, 60)
    world.links[63] = {1: "/state/run/server.log", 2: "/state/run/server.log"}
    run = identity(world, 60, launched=True, log="/state/run/server.log")
    left = world.without(60)
    assert members(run, [], left.snapshot()) == [61, 62, 63]
    left.links = {}
    assert members(run, [], left.snapshot()) == [], "a session of that number that nothing ties to the run"


def test_a_session_whose_number_was_given_anew_is_a_strangers() -> None:
    world = (
        World().add(1, 0, ["init"], 1.0, 1, 1).add(60, 1, ["-bash"], 500.0, 60, 60).add(61, 60, ["vim"], 501.0, 60, 61)
    )
    run = Identity(60, world.start(60) - 400, launched=True)
    assert members(run, [], world.snapshot()) == []


def test_a_zombie_launcher_still_names_its_session() -> None:
    world = server(shell(), 60, 60, 60)
    world.rows[60] = world.rows[60]._replace(state="Z")
    world.add(70, 1, ["sleep"], 120.0, 60, 70)
    assert 70 in members(identity(world, 60, launched=True), [], world.snapshot())


def test_we_and_our_ancestors_are_never_of_a_run() -> None:
    world = shell()
    server(world, 60, 60, 60)
    world.add(70, 60, ["bash"], 120.0, 60, 70)
    world.rows[OWN] = world.rows[OWN]._replace(ppid=70)
    assert members(identity(world, 60, launched=True), [], world.snapshot()) == [61, 62, 63]


def test_ranks_whose_launcher_nobody_saw() -> None:
    world = server(shell(), 60, 50, 60).without(60)
    known = [(62, world.start(62))]
    run = learn(Identity(None, None), [62], world.snapshot())
    assert members(run, known, world.snapshot()) == [61, 62, 63]
