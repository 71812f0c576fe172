"""Launching and killing real processes that imitate SGLang's and misbehave in one way each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.events import Process, Run
from launchmon_agent.runs import handle as handles
from launchmon_agent.runs.directory import RunDirectory, create
from launchmon_agent.runs.kill import Killer, KillResult
from launchmon_agent.runs.launch import prepare, start
from launchmon_agent.sensors import proc
from tests.support import fake_servers
from tests.support.ports import free_port
from tests.support.sessions import end_session
from tests.support.waiting import until


@contextmanager
def launched(tmp_path, *flags: str, argv: list[str] | None = None) -> Iterator[Run]:
    """A server started as the keeper does it, by us; its port is ``Run.port``."""
    port = free_port()
    words = argv or fake_servers.command(*flags, port=port)
    plan = prepare(words, env={"PYTHONPATH": fake_servers.FAKES}, without={"hook"})
    directory = create(plan.argv, root=str(tmp_path / "runs"))
    pid, start_time = start(plan, directory)
    try:
        yield Run(0.0, id=directory.id, pid=pid, start_time=start_time, launched=True, log=directory.log, port=port)
    finally:
        end_session(pid)
        reap(pid)


def reap(pid: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return None


@contextmanager
def foreign(process: subprocess.Popen[bytes], port: int) -> Iterator[Run]:
    start_time = proc.start_time(process.pid)
    yield Run(0.0, id="foreign", pid=process.pid, start_time=start_time, port=port)


def kill(
    run: Run, force: bool = False, grace_s: float = 10.0, processes: tuple[Process, ...] = ()
) -> tuple[KillResult, list[str]]:
    steps: list[str] = []
    killer = Killer(run, processes, grace_s=grace_s)
    result = killer.run(lambda step, state, text: steps.append(f"{step}: {state}"), force=force)
    return result, steps


def members(run: Run) -> list[int]:
    assert run.pid is not None
    return [row.pid for row in proc.table().values() if row.session == run.pid and not row.dead]


def orphans(run: Run) -> list[int]:
    """Members whose parent is none of them; the launcher is one."""
    rows = [row for row in proc.table().values() if row.session == run.pid and not row.dead]
    pids = {row.pid for row in rows}
    return [row.pid for row in rows if row.ppid not in pids]


def wait_for_titles(run: Run, *titles: str) -> None:
    assert run.pid is not None
    until(lambda: set(titles) <= set(fake_servers.titles(run.pid or 0)))


def is_listening(port: int | None) -> bool:
    return bool(proc.listening_inodes(os.getpid(), port or 0))


# ------------------------------------------------------------------------------------------------------------ launching


def test_a_launched_server_has_its_own_session_no_terminal_and_writes_to_the_log(tmp_path) -> None:
    with launched(tmp_path) as run:
        assert run.pid is not None
        until(lambda: is_listening(run.port) and "ready to roll" in Path(str(run.log)).read_text())
        row = proc.stat(run.pid)
        assert row is not None
        assert (row.session, row.pgrp) == (run.pid, run.pid)
        links = proc.fd_links(run.pid) or {}
        assert (links[0], links[1], links[2]) == ("/dev/null", run.log, run.log)
        assert (proc.environ(run.pid) or {})["SPT_NOENV"] == "1"


def test_a_launched_server_keeps_no_descriptor_of_ours_and_no_ignored_signal(tmp_path) -> None:
    code = (
        "import os, signal\n"
        "print(sorted(os.listdir('/proc/self/fd')), signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    try:
        plan = prepare([sys.executable, "-c", code], without={"hook"})
        directory = create(plan.argv, root=str(tmp_path))
        pid, _ = start(plan, directory)
        assert reap(pid) == 0
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(read_end)
        os.close(write_end)
    with open(directory.log) as file:
        assert file.read() == "['0', '1', '2', '3'] True\n", "3 is the listing of the directory itself"


def test_the_exit_status_stays_for_the_one_who_started_it(tmp_path) -> None:
    plan = prepare([sys.executable, "-c", "raise SystemExit(7)"], without={"hook"})
    pid, _ = start(plan, create(plan.argv, root=str(tmp_path)))
    subprocess.run(["true"], check=True)  # the subprocess module looks for children that nobody waited for
    assert reap(pid) == 7


def test_a_second_start_appends_to_the_log(tmp_path) -> None:
    plan = prepare([sys.executable, "-c", "print('line')"], without={"hook"})
    directory = create(plan.argv, root=str(tmp_path))
    for _ in range(2):
        reap(start(plan, directory)[0])
    with open(directory.log) as file:
        assert file.read() == "line\nline\n"


def test_a_program_the_kernel_refuses_is_said(tmp_path) -> None:
    script = tmp_path / "serve"
    script.write_text("echo no first line\n")
    script.chmod(0o755)
    plan = prepare([str(script)], without={"hook"})
    with pytest.raises(Refused, match="could not be started"):
        start(plan, create(plan.argv, root=str(tmp_path)))
    with pytest.raises(Refused, match=r"server\.log cannot be written"):
        start(plan, RunDirectory(str(tmp_path / "gone")))


# -------------------------------------------------------------------------------------------------------------- killing


def test_the_plan_lists_what_would_die_and_signals_nobody(tmp_path) -> None:
    with launched(tmp_path, "--tp", "2") as run:
        wait_for_titles(run, "sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer")
        until(lambda: is_listening(run.port))
        plan = Killer(run).plan()
        assert plan.launcher == run.pid
        roles = [(one.role, one.rank) for one in plan.processes]
        assert roles[0] == ("launcher", None)
        assert ("scheduler", "TP0") in roles
        assert ("scheduler", "TP1") in roles
        assert ("detokenizer", None) in roles
        assert sorted(one.pid for one in plan.processes) == sorted(members(run))
        assert is_listening(run.port)


def test_a_server_that_ends_when_asked_is_not_killed(tmp_path) -> None:
    with launched(tmp_path, "--tp", "2", "--on-term", "drain") as run:
        until(lambda: is_listening(run.port))
        result, steps = kill(run)
        assert result.graceful
        assert result.leftovers == ()
        assert len(result.killed) == 5, "launcher, tracker, two ranks, detokenizer"
        assert members(run) == []
        assert not is_listening(run.port)
        assert not any(step.startswith("KILL") for step in steps)


def test_a_launcher_that_ignores_term_is_killed_after_the_grace(tmp_path) -> None:
    with launched(tmp_path, "--tp", "2", "--on-term", "ignore") as run:
        until(lambda: is_listening(run.port))
        result, steps = kill(run, grace_s=0.5)
        assert not result.graceful
        assert result.leftovers == ()
        assert members(run) == []
        order = [step for step in steps if step.startswith(("TERM", "KILL"))]
        assert order[:4] == ["TERM launcher: doing", "TERM launcher: done", "KILL ranks: done", "KILL launcher: done"]


def test_force_asks_nobody(tmp_path) -> None:
    with launched(tmp_path, "--on-term", "drain") as run:
        until(lambda: is_listening(run.port))
        result, steps = kill(run, force=True)
        assert not result.graceful
        assert result.leftovers == ()
        assert "wait: doing" not in steps
        assert members(run) == []


def test_children_that_still_import_do_not_survive_their_launcher(tmp_path) -> None:
    with launched(tmp_path, "--tp", "2", "--importing", "600") as run:
        until(lambda: len(members(run)) == 5)
        result, _ = kill(run)
        assert result.leftovers == ()
        assert members(run) == []
        assert not result.graceful, "the launcher ends at once, the children do not"


def test_orphans_of_a_launcher_that_is_dead_already(tmp_path) -> None:
    with launched(tmp_path, "--tp", "2", "--no-death-signal", "--die") as run:
        assert run.pid is not None
        assert reap(run.pid) == 1
        wait_for_titles(run, "sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer")
        plan = Killer(run).plan()
        assert plan.launcher is None
        assert {one.rank for one in plan.processes} >= {"TP0", "TP1"}
        result, _ = kill(run)
        assert result.leftovers == ()
        assert members(run) == []


def test_a_zombie_launcher_with_living_orphans(tmp_path) -> None:
    with launched(tmp_path, "--no-death-signal", "--die") as run:
        until(lambda: not proc.alive(run.pid or 0, run.start_time or 0))
        wait_for_titles(run, "sglang::scheduler_TP0", "sglang::detokenizer")
        result, _ = kill(run)
        assert result.leftovers == ()
        assert members(run) == []


def test_a_stopped_rank_is_ended(tmp_path) -> None:
    with launched(tmp_path, "--tp", "2", "--stopped", "1", "--no-death-signal") as run:
        until(lambda: "T" in [row.state for row in proc.table().values() if row.session == run.pid])
        result, _ = kill(run)
        assert result.leftovers == ()
        assert members(run) == []


def test_a_stopped_launcher_is_not_waited_for(tmp_path) -> None:
    with launched(tmp_path) as run:
        until(lambda: is_listening(run.port))
        os.kill(run.pid or 0, signal.SIGSTOP)
        until(lambda: (row := proc.stat(run.pid or 0)) is not None and row.state == "T")
        result, steps = kill(run)
        assert "wait: doing" not in steps
        assert result.leftovers == ()
        assert members(run) == []


def test_compilers_and_double_forked_processes_of_a_launched_run_go_with_it(tmp_path) -> None:
    with launched(tmp_path, "--compiler", "--double-fork") as run:
        until(lambda: len(members(run)) == 6 and len(orphans(run)) == 2)
        result, _ = kill(run)
        assert len(result.killed) == 6
        assert result.leftovers == ()
        assert members(run) == []


def test_a_script_that_starts_the_server_again_and_again(tmp_path) -> None:
    port = free_port()
    server = " ".join(fake_servers.command("--on-term", "drain", port=port))
    with launched(tmp_path, argv=["/bin/sh", "-c", f"while true; do {server}; done"]) as run:
        until(lambda: is_listening(port))
        plan = Killer(run).plan()
        assert plan.launcher not in (None, run.pid), "TERM is for the server, not for the script"
        result, _ = kill(run)
        assert result.leftovers == ()
        assert members(run) == []


def test_files_in_shared_memory_are_named(tmp_path) -> None:
    with launched(tmp_path, "--shm") as run:
        path = f"/dev/shm/sgl_shm_mq_{run.pid}_test"
        until(lambda: is_listening(run.port))
        try:
            result, _ = kill(run)
            assert result.leftovers == (), "a next server does not mind them"
            assert any(path in note for note in result.notes)
        finally:
            os.unlink(path)


def test_a_stranger_that_takes_the_port_is_named(tmp_path) -> None:
    with launched(tmp_path) as run:
        until(lambda: is_listening(run.port))
        with socket.socket() as thief:
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

            def steal(seconds: float) -> None:
                time.sleep(seconds)
                try:
                    thief.bind(("127.0.0.1", run.port or 0))
                    thief.listen()
                except OSError:
                    pass  # not free yet, or ours already

            clock = [0.0]

            def passing() -> float:
                clock[0] += 0.5
                return clock[0]

            result = Killer(run, sleep=steal, clock=passing).run(lambda *_: None)
            assert f"port {run.port} is held by process {os.getpid()}" in result.leftovers[0]


def test_nothing_left_to_kill(tmp_path) -> None:
    with launched(tmp_path, argv=["/bin/true"]) as run:
        reap(run.pid or 0)
        result, steps = kill(run)
        assert result.killed == ()
        assert result.leftovers == ()
        assert steps[0] == "look: done"


def test_without_pidfds_the_start_time_is_checked_instead(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(handles.os, "pidfd_open", missing)
    with launched(tmp_path, "--tp", "2", "--stopped", "1") as run:
        until(lambda: is_listening(run.port))
        result, _ = kill(run)
        assert result.leftovers == ()
        assert members(run) == []


def test_a_process_that_may_not_be_signalled_is_named_and_not_asked_again(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def refuse(pidfd: int, number: int) -> None:
        asked.append(number)
        raise PermissionError(1, "Operation not permitted")

    with launched(tmp_path) as run:
        until(lambda: is_listening(run.port))
        alive = members(run)
        with monkeypatch.context() as patch:
            patch.setattr(handles.signal, "pidfd_send_signal", refuse)
            clock = [0.0]

            def passing() -> float:
                clock[0] += 0.5
                return clock[0]

            result = Killer(run, sleep=lambda _: None, clock=passing).run(lambda *_: None)
        assert sorted(members(run)) == sorted(alive)
        assert len(asked) == len(alive), "TERM for the launcher, KILL for the others, once each"
        assert result.killed == ()
        assert sum("may not end" in text for text in result.leftovers) == len(alive)


# --------------------------------------------------------------------------------------------- runs that others started


def shell_job(line: str, **options: object):
    """A shell in a session of its own that runs ``line`` without job control: all of it shares one process group."""
    return fake_servers.session_of("/bin/sh", "-c", line, **options)


def find_launcher(session: int, port: int) -> int | None:
    for row in proc.table().values():
        argv = proc.cmdline(row.pid)
        if row.session == session and "sglang.launch_server" in argv and str(port) in argv:
            return row.pid
    return None


def test_neighbours_of_a_foreign_run_survive(tmp_path) -> None:
    """The user's shell, another server, and a program with multiprocessing children, all in one process group."""
    ports = [free_port(), free_port()]
    servers = [" ".join(fake_servers.command("--tp", "2", "--no-death-signal", port=port)) for port in ports]
    train = tmp_path / "train.py"
    train.write_text(
        "import multiprocessing as m, time\n"
        "if __name__ == '__main__':\n"
        "    p = m.get_context('spawn').Process(target=time.sleep, args=(600,)); p.start(); p.join()\n"
    )
    with shell_job(f"{servers[0]} & {servers[1]} & {sys.executable} {train} & wait; sleep 600") as shell:
        until(lambda: all(is_listening(port) for port in ports))
        until(lambda: sum(title.startswith("sglang::") for title in fake_servers.titles(shell.pid)) == 6)
        until(lambda: len([row for row in proc.table().values() if row.session == shell.pid]) == 14)
        pid = find_launcher(shell.pid, ports[0])
        assert pid is not None
        run = Run(0.0, id="foreign", pid=pid, start_time=proc.start_time(pid), port=ports[0])
        mine = {one.pid for one in Killer(run).plan().processes}
        before = {row.pid for row in proc.table().values() if row.session == shell.pid}
        assert len(mine) == 5

        result, _ = kill(run)

        assert result.leftovers == ()
        assert {one.pid for one in result.killed} == mine
        alive = {row.pid for row in proc.table().values() if row.session == shell.pid and not row.dead}
        assert alive == before - mine
        assert is_listening(ports[1])
        assert not is_listening(ports[0])


def test_orphans_of_a_foreign_run_whose_launcher_is_gone(tmp_path) -> None:
    port = free_port()
    with shell_job(
        f"{' '.join(fake_servers.command('--tp', '2', '--no-death-signal', '--die', port=port))}; sleep 600"
    ) as shell:
        until(lambda: sum(title.startswith("sglang::") for title in fake_servers.titles(shell.pid)) == 3)
        until(lambda: find_launcher(shell.pid, port) is None)
        ranks = [row for row in proc.table().values() if row.session == shell.pid]
        rank = next(row for row in ranks if proc.cmdline(row.pid) == ["sglang::scheduler_TP0"])
        run = Run(0.0, id="foreign", pid=rank.pid, start_time=rank.start_time, port=port)
        plan = Killer(run).plan()
        assert plan.launcher is None
        result, _ = kill(run)
        assert result.leftovers == ()
        assert len(result.killed) >= 3
        assert [title for title in fake_servers.titles(shell.pid) if title.startswith("sglang::")] == []
        assert proc.alive(shell.pid, proc.start_time(shell.pid) or 0)


def test_zombies_are_gone_and_named_if_their_parent_does_not_wait(tmp_path) -> None:
    port = free_port()
    line = f"import subprocess,time; subprocess.Popen({fake_servers.command(port=port)!r}); time.sleep(600)"
    with fake_servers.session_of(sys.executable, "-c", line) as parent:
        until(lambda: is_listening(port))
        pid = find_launcher(parent.pid, port)
        assert pid is not None
        run = Run(0.0, id="foreign", pid=pid, start_time=proc.start_time(pid), port=port)
        result, _ = kill(run)
        assert result.leftovers == ()
        assert any(str(pid) in note and f"process {parent.pid}" in note for note in result.notes)


def test_a_port_that_was_anothers_all_along_is_no_leftover(tmp_path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with fake_servers.session_of("sleep", "600") as process, foreign(process, port) as run:
            result, _ = kill(run)
            assert result.leftovers == ()
            assert any("another server's" in note for note in result.notes)
