"""The processes of a run, on real process trees shaped like a server's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from launchmon_agent.events import Gpu, GpuProcess, Gpus, Process
from launchmon_agent.sensors import proc
from launchmon_agent.sensors.processes import ProcessSensor
from launchmon_agent.sensors.procfiles import ProcessFiles
from tests.support.sessions import end_session, session_members
from tests.support.waiting import until

SERVER = Path(__file__).parents[2] / "support" / "server.py"
TP2 = ["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"]


class Tree:
    """A launcher with its children, and a sensor on it."""

    def __init__(self, *children: str, env: dict[str, str] | None = None, path: Path | None = None) -> None:
        """``path``: a directory with programs, which is the working directory too."""
        self.launcher = subprocess.Popen(
            [sys.executable, str(SERVER), *children],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=path,
            env={**os.environ, "PATH": f"{path or ''}:{os.environ['PATH']}", **(env or {})},
        )
        assert self.launcher.stdout is not None
        assert self.launcher.stdout.readline() == "started\n"
        self.pid = self.launcher.pid
        until(lambda: all("-c" in proc.cmdline(row.pid) for row in proc.children(self.pid)))  # not forked copies of it

    def sensor(self, expected: Sequence[str] = (), session: int | None = None) -> ProcessSensor:
        sensor = ProcessSensor(self.pid, proc.start_time(self.pid), session=session)
        sensor.expect(expected)
        return sensor

    def take_titles(self) -> None:
        assert self.launcher.stdin is not None
        self.launcher.stdin.write("title\n")
        self.launcher.stdin.flush()

    def end(self) -> None:
        end_session(self.pid)
        self.launcher.communicate()


@pytest.fixture
def tree() -> Iterator[Callable[..., Tree]]:
    trees: list[Tree] = []

    def start(*children: str, **how: Any) -> Tree:
        trees.append(Tree(*children, **how))
        return trees[-1]

    yield start
    for one in trees:
        one.end()


def look(sensor: ProcessSensor, gpus: Gpus | None = None) -> dict[str, Process]:
    """What is there now, by rank or role."""
    return {process.rank or process.role: process for process in sensor.sample(time.time(), gpus).processes}


def await_look(sensor: ProcessSensor, condition: Callable[[dict[str, Process]], object]) -> dict[str, Process]:
    found: dict[str, Process] = {}

    def holds() -> object:
        nonlocal found
        found = look(sensor)
        return condition(found)

    until(holds)
    return found


def test_ranks_are_named_by_place_and_then_by_title(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    sensor = run.sensor(["TP0", "TP1"])
    found = look(sensor)
    assert list(found) == ["launcher", "TP0", "TP1", "detokenizer", "helper"]
    assert [(found[rank].role, found[rank].named_by, found[rank].title) for rank in ("TP0", "TP1")] == [
        ("spawning", "order", None),
        ("spawning", "order", None),
    ]
    assert found["launcher"].pid == run.pid
    assert found["helper"].title == "resource_tracker"
    before = {rank: process.pid for rank, process in found.items()}
    run.take_titles()
    found = await_look(sensor, lambda now: now["TP1"].role == now["TP0"].role == "scheduler")
    assert {rank: process.pid for rank, process in found.items()} == before
    assert (found["TP1"].named_by, found["TP1"].title) == ("title", "sglang::scheduler_TP1")
    assert sensor.vanished(time.time()) == []


def test_names_wait_for_the_sizes(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    sensor = run.sensor()
    assert [process.role for process in sensor.sample(time.time(), None).processes].count("spawning") == 3
    sensor.expect(["TP0", "TP1"])
    assert {"TP0", "TP1", "detokenizer"} <= set(look(sensor))


def test_values_of_a_live_rank(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    sensor = run.sensor(["TP0", "TP1"])
    run.take_titles()
    await_look(sensor, lambda now: now["TP0"].role == "scheduler")
    rank = await_look(sensor, lambda now: now["TP0"].cpu_percent is not None and now["TP0"].state == "S")["TP0"]
    assert rank.ppid == run.pid
    assert rank.start_time == proc.start_time(rank.pid)
    assert rank.threads == 1
    assert rank.rss_anon is not None and rank.rss_anon > 1 << 20
    assert rank.rss_file is not None and rank.rss_file > 1 << 20
    assert rank.rss == rank.rss_anon + rank.rss_file + (rank.rss_shmem or 0)
    assert rank.context_switches is not None and rank.context_switches > 0
    assert rank.major_faults is not None
    assert rank.read_bps is not None and rank.write_bps is not None
    assert rank.gpu is None


def test_data_parallel_ranks_are_the_controllers_children(tree: Callable[..., Tree]) -> None:
    run = tree("sglang::data_parallel_controller/sglang::scheduler_DP0,sglang::scheduler_DP1", "sglang::detokenizer")
    sensor = run.sensor(["DP0", "DP1"])
    await_look(sensor, lambda now: {"dp-controller", "detokenizer"} <= now.keys())
    run.take_titles()
    found = await_look(sensor, lambda now: {"DP0", "DP1"} <= now.keys() and now["DP1"].role == "scheduler")
    assert found["DP0"].ppid == found["dp-controller"].pid
    assert list(found)[:5] == ["launcher", "DP0", "DP1", "dp-controller", "detokenizer"]


def test_compilers_are_counted_and_their_cpu_belongs_to_the_rank(tree: Callable[..., Tree], tmp_path: Path) -> None:
    for name in ("nvcc", "ptxas", "ninja"):
        shutil.copy("/bin/sh", tmp_path / name)
    (tmp_path / "busy").write_text("while :; do :; done")
    (tmp_path / "stopped").write_text("kill -STOP $$")
    (tmp_path / "build").write_text("nvcc busy & nvcc stopped & ptxas busy & wait")
    run = tree("sglang::scheduler/sh:ninja build; :", "sglang::detokenizer", path=tmp_path)
    sensor = run.sensor(["TP0"])
    run.take_titles()
    wanted = {"ninja": 1, "nvcc": 2, "ptxas": 1}
    found = await_look(sensor, lambda now: now["TP0"].children == wanted and now["TP0"].tree_cpu_percent is not None)
    assert set(found) == {"launcher", "TP0", "detokenizer", "helper"}, "compilers are not listed"
    await_look(sensor, lambda now: (now["TP0"].tree_cpu_percent or 0) > 20 + (now["TP0"].cpu_percent or 0))
    assert found["launcher"].children == {}


def test_cpu_of_children_that_were_waited_for_is_kept(tree: Callable[..., Tree]) -> None:
    burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    run = tree(f"sglang::scheduler/sh:sh -c '{burn}'; sleep 3600", "sglang::detokenizer")
    sensor = run.sensor(["TP0"])
    await_look(sensor, lambda now: "TP0" in now)
    run.take_titles()
    seconds = 0.0
    now = time.time()

    def burnt() -> bool:
        nonlocal seconds, now
        now += 1  # each sample a second on, whatever the real time is
        found = {process.rank: process for process in sensor.sample(now, None).processes}
        seconds += (found["TP0"].tree_cpu_percent or 0) / 100
        return found["TP0"].children == {"sleep": 1}

    until(burnt)
    shell = next(row for row in session_members(run.pid) if row.comm == "sh")
    spent = (shell.cutime + shell.cstime) / proc.TICKS
    assert spent > 0.05
    assert seconds >= spent - 0.03


def test_a_forked_copy_of_a_rank_is_no_second_rank(tree: Callable[..., Tree]) -> None:
    run = tree("sglang::scheduler_TP0/fork,sh:sleep 3600", *TP2[1:])
    sensor = run.sensor(["TP0", "TP1"])
    run.take_titles()
    await_look(sensor, lambda now: now["TP1"].role == "scheduler" and now["TP0"].children == {"sleep": 1})
    copies = [row for row in session_members(run.pid) if proc.cmdline(row.pid) == ["sglang::scheduler_TP0"]]
    assert len(copies) == 2
    ranks = [process.rank for process in sensor.sample(time.time(), None).processes if process.role == "scheduler"]
    assert ranks == ["TP0", "TP1"]


@pytest.mark.parametrize("seen_late", [1, 2])
def test_a_copy_of_a_rank_whose_title_was_not_seen_before_is_no_rank_for_long(
    tree: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch, seen_late: int
) -> None:
    """The rank takes its title and forks between two reads; ``seen_late``: so many reads still find it without one."""
    run = tree("sglang::scheduler/fork", "sglang::detokenizer")
    sensor = run.sensor(["TP0"])
    rank = look(sensor)["TP0"]
    cmdline, before = proc.cmdline, proc.cmdline(rank.pid)
    run.take_titles()
    until(lambda: [cmdline(row.pid) for row in proc.children(rank.pid)] == [["sglang::scheduler"]])
    late = iter([before] * seen_late)
    monkeypatch.setattr(proc, "cmdline", lambda pid: next(late, cmdline(pid)) if pid == rank.pid else cmdline(pid))
    ranks = [process.rank for process in sensor.sample(time.time(), None).processes if process.role != "helper"]
    assert ranks.count(None) == 2, "launcher and detokenizer"
    assert len(ranks) == 2 + seen_late
    assert next(late, None) is None
    found = look(sensor)
    assert set(found) == {"launcher", "TP0", "detokenizer", "helper"}
    assert (found["TP0"].pid, found["TP0"].role) == (rank.pid, "scheduler")
    assert sensor.vanished(time.time()) == []


def test_a_child_of_a_rank_first_seen_in_the_midst_of_its_exec_is_no_rank(
    tree: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes the arguments away first; the comm is its parent's for a moment longer."""
    run = tree("sglang::scheduler_TP0/spawn", *TP2[1:])
    run.take_titles()
    found = await_look(run.sensor(["TP0", "TP1"]), lambda now: now["TP0"].children == {"python": 1})
    (child,) = (row.pid for row in proc.children(found["TP0"].pid))
    stat, cmdline = proc.stat, proc.cmdline
    early = {child}

    def early_stat(pid: int) -> proc.Stat | None:
        row = stat(pid)
        return row if row is None or pid not in early else row._replace(comm="sglang::schedul")

    monkeypatch.setattr(proc, "stat", early_stat)
    monkeypatch.setattr(proc, "cmdline", lambda pid: [] if pid in early else cmdline(pid))
    sensor = run.sensor(["TP0", "TP1"])
    assert set(look(sensor)) == {"launcher", "TP0", "TP1", "detokenizer", "helper"}
    early.clear()
    assert look(sensor)["TP0"].children == {"python": 1}
    os.kill(child, signal.SIGKILL)
    until(lambda: (row := stat(child)) is None or row.dead)
    assert sensor.vanished(time.time()) == []


def test_multiprocessing_children_of_a_rank_are_its_own(tree: Callable[..., Tree]) -> None:
    run = tree("sglang::scheduler_TP0/spawn", *TP2[1:])
    sensor = run.sensor(["TP0", "TP1"])
    run.take_titles()
    found = await_look(sensor, lambda now: now["TP1"].role == "scheduler" and now["TP0"].children == {"python": 1})
    assert set(found) == {"launcher", "TP0", "TP1", "detokenizer", "helper"}


def test_a_killed_rank_has_vanished_once(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    sensor = run.sensor(["TP0", "TP1"])
    run.take_titles()
    found = await_look(sensor, lambda now: now["TP1"].role == "scheduler")
    victim = found["TP1"]
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: (row := proc.stat(victim.pid)) is None or row.dead)
    exits = sensor.vanished(50.0)
    assert [(one.at, one.pid, one.start_time, one.role, one.rank, one.code) for one in exits] == [
        (50.0, victim.pid, victim.start_time, "scheduler", "TP1", -9)
    ]
    assert sensor.vanished(51.0) == []
    # the launcher does not wait for it: a zombie stays, and stays out of sight, also when all is looked at anew
    for later in (0, 20, 40):
        found = {one.rank or one.role: one for one in sensor.sample(time.time() + later, None).processes}
        assert "TP1" not in found
        assert found["TP0"].role in ("scheduler", "spawning")
        assert sensor.vanished(time.time()) == []


def test_a_rank_that_ended_while_it_had_no_title_keeps_its_place(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    sensor = run.sensor(["TP0", "TP1"])
    found = look(sensor)
    os.kill(found["TP0"].pid, signal.SIGKILL)
    until(lambda: (row := proc.stat(found["TP0"].pid)) is None or row.dead)
    after = look(sensor)
    assert after["TP1"].pid == found["TP1"].pid
    assert after["detokenizer"].pid == found["detokenizer"].pid
    (exit_,) = sensor.vanished(1.0)
    assert (exit_.rank, exit_.role, exit_.code) == ("TP0", "spawning", -9)


def test_a_zombie_that_was_there_before_us_is_reported(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    run.take_titles()
    ranks = lambda: [row for row in proc.children(run.pid) if row.comm == "sglang::schedul"]  # noqa: E731
    until(lambda: len(ranks()) == 2)
    victim = ranks()[1]
    until(lambda: proc.cmdline(victim.pid) == ["sglang::scheduler_TP1"])
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: (row := proc.stat(victim.pid)) is not None and row.dead)
    sensor = run.sensor(["TP0", "TP1"])
    found = await_look(sensor, lambda now: now.get("TP0"))
    assert "TP1" not in found
    (exit_,) = sensor.vanished(1.0)
    assert (exit_.pid, exit_.role, exit_.rank, exit_.code) == (victim.pid, "scheduler", "TP1", -9)


def test_a_stopped_rank_shows_it(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    sensor = run.sensor(["TP0", "TP1"])
    os.kill(look(sensor)["TP1"].pid, signal.SIGSTOP)
    await_look(sensor, lambda now: now["TP1"].state == "T")


def test_orphans_stay_with_the_run(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    sensor = run.sensor(["TP0", "TP1"])
    before = look(sensor)
    run.launcher.kill()
    until(lambda: (row := proc.stat(run.pid)) is None or row.dead)
    after = look(sensor)
    assert "launcher" not in after
    assert {rank: after[rank].pid for rank in ("TP0", "TP1", "detokenizer")} == {
        rank: before[rank].pid for rank in ("TP0", "TP1", "detokenizer")
    }
    assert [(one.role, one.code) for one in sensor.vanished(1.0)] == [("launcher", -9)]


def test_orphans_are_found_by_the_session_of_a_launched_run(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    start = proc.start_time(run.pid)
    run.launcher.kill()
    run.launcher.wait()
    assert ProcessSensor(run.pid, start).sample(1.0, None).processes == ()
    sensor = ProcessSensor(run.pid, start, session=run.pid)
    sensor.expect(["TP0", "TP1"])
    assert {"TP0", "TP1", "detokenizer"} <= set(look(sensor))


def test_another_process_with_the_launchers_pid_is_not_the_launcher(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2)
    start = proc.start_time(run.pid)
    assert start is not None
    assert ProcessSensor(run.pid, start - 60).sample(1.0, None).processes == ()


def test_ranks_get_their_gpus(tree: Callable[..., Tree]) -> None:
    run = tree(*TP2, env={"CUDA_VISIBLE_DEVICES": "3,2"})
    sensor = run.sensor(["TP0", "TP1"])
    found = look(sensor)
    gpus = Gpus(1.0, gpus=tuple(Gpu(index, processes=(GpuProcess(99999999, 7),)) for index in range(4)))
    placed = look(sensor, gpus)
    assert [(placed[rank].gpu, placed[rank].gpu_memory, placed[rank].gpu_mapped_by) for rank in ("TP0", "TP1")] == [
        (3, 7, "order"),
        (2, 7, "order"),
    ]
    assert placed["detokenizer"].gpu is None
    gpus = Gpus(1.0, gpus=(Gpu(3, processes=(GpuProcess(found["TP0"].pid, 5),)), Gpu(2)))
    assert look(sensor, gpus)["TP0"].gpu_mapped_by == "pid"
    assert look(sensor, Gpus(1.0, source="none", error="no driver"))["TP0"].gpu is None


def test_processes_may_vanish_between_any_two_reads(tree: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch) -> None:
    run = tree(*TP2)
    sensor = run.sensor(["TP0", "TP1"])
    look(sensor)
    for reader in ("memory", "io_bytes", "wchan", "syscall"):
        with monkeypatch.context() as patch:
            patch.setattr(ProcessFiles, reader, lambda files: None)
            assert {"TP0", "TP1"} <= set(look(sensor))
    with monkeypatch.context() as patch:
        patch.setattr(proc, "cmdline", lambda pid: [])
        assert {"TP0", "TP1"} <= set(look(sensor))
    with monkeypatch.context() as patch:
        patch.setattr(ProcessFiles, "stat", lambda files: None)
        assert look(sensor) == {}
    assert len(sensor.vanished(1.0)) == 4
