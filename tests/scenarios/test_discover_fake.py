"""Finding servers that were started by hand, and their logs, with real processes."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchmon_agent.discover import Found, discover
from launchmon_agent.installed import sglang_version
from launchmon_agent.output import all_outputs, find_output
from launchmon_agent.runs.directory import ProcessId, create
from launchmon_agent.sensors import proc
from tests.support import fake_servers
from tests.support.ports import free_port
from tests.support.waiting import until

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def server(port: int, *flags: str) -> str:
    return shlex.join(fake_servers.command(*flags, port=port))


@contextmanager
def by_hand(line: str, cwd: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with fake_servers.session_of("/bin/sh", "-c", line, cwd=cwd) as shell:
        yield shell


def find(port: int) -> Found | None:
    return next((found for found in discover() if found.port == port), None)


def wait_for(port: int, ranks: int = 1) -> Found:
    until(lambda: (found := find(port)) is not None and found.ranks == ranks and is_listening(port))
    found = find(port)
    assert found is not None
    return found


def is_listening(port: int) -> bool:
    return bool(proc.listening_inodes(os.getpid(), port))


def read(path: str | None) -> str:
    assert path is not None
    with open(path) as file:
        return file.read()


# ---------------------------------------------------------------------------------------------------------- the server


def test_a_server_is_found_with_what_it_is(tmp_path) -> None:
    port = free_port()
    with by_hand(f"{server(port, '--tp', '2')} > log 2>&1; :", cwd=str(tmp_path)) as shell:
        found = wait_for(port, ranks=2)
        assert found.command.tp == 2
        assert found.command.model == "org/tiny"
        assert found.cwd == str(tmp_path)
        assert found.start_time == proc.start_time(found.pid)
        assert len(found.pids) == 5
        assert shell.pid not in found.pids
        assert not found.orphaned
        assert not found.simulated
        assert found.run_id is None


def inside(session: int) -> list[Found]:
    """What is found in it."""
    return [one for one in discover() if (row := proc.stat(one.pid)) and row.session == session]


def the_one(session: int, is_so: Callable[[Found], bool]) -> Found:
    """What is found in it alone, once it is so."""
    found: list[Found] = []

    def there() -> bool:
        found[:] = inside(session)  # once for all questions: what comes or goes is not there at each look
        return len(found) == 1 and is_so(found[0])

    until(there)
    return found[0]


def test_wrappers_and_lookalikes_are_no_servers(tmp_path) -> None:
    port = free_port()
    watcher = shlex.join([sys.executable, "-c", "import time; time.sleep(600)", "-m", "sglang.launch_server"])
    with by_hand(f"{watcher} & timeout 600 {server(port)} > {tmp_path}/log 2>&1") as shell:
        found = wait_for(port)
        assert [one.pid for one in inside(shell.pid)] == [found.pid]
        assert "timeout" not in found.argv[0]


def test_a_script_that_starts_an_engine_itself_is_the_launcher(tmp_path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        "import multiprocessing as m, time, setproctitle\n"
        "def rank():\n"
        "    setproctitle.setproctitle('sglang::scheduler'); time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    p = m.get_context('spawn').Process(target=rank); p.start(); p.join()\n"
    )
    with by_hand(f"{sys.executable} {script} > {tmp_path}/log 2>&1; :") as shell:
        found = the_one(shell.pid, lambda one: one.ranks == 1)
        assert found.argv[1] == str(script)
        assert found.log == f"{tmp_path}/log"


def test_orphaned_ranks_are_found_as_one_group(tmp_path) -> None:
    port = free_port()
    line = f"{server(port, '--tp', '2', '--no-death-signal', '--die')} > {tmp_path}/log 2>&1; sleep 600"
    with by_hand(line) as shell:
        found = the_one(shell.pid, lambda one: one.orphaned and one.ranks == 2)
        assert found.argv == ()
        assert found.log == f"{tmp_path}/log"
        assert "whose launcher is dead" in found.describe()


def test_a_launched_run_is_recognised(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    port = free_port()
    argv = fake_servers.command(port=port)
    with fake_servers.session_of(*argv) as process:
        directory = create(tuple(argv))
        start_time = proc.start_time(process.pid)
        assert start_time is not None
        directory.update(server=ProcessId(process.pid, start_time))
        assert wait_for(port).run_id == directory.id
        directory.update(server=ProcessId(process.pid, start_time - 100))
        assert wait_for(port).run_id is None, "another process had that pid once"


def test_the_version_is_read_from_the_installation(tmp_path) -> None:
    (tmp_path / "sglang-0.5.23.dist-info").mkdir()
    environ = {**fake_servers.environment(), "PYTHONPATH": f"{fake_servers.FAKES}:{tmp_path}"}
    with fake_servers.session_of(*fake_servers.command(port=free_port()), env=environ) as process:
        assert sglang_version(process.pid) == "0.5.23"


# ------------------------------------------------------------------------------------------------------------- its log


def test_a_log_file(tmp_path) -> None:
    port = free_port()
    with by_hand(f"{server(port)} > '{tmp_path}/my log' 2>&1; :"):
        found = wait_for(port)
        assert (found.log_source, found.log, found.log_note) == ("file", f"{tmp_path}/my log", None)
        until(lambda: "ready to roll" in read(found.log))


def test_stderr_is_asked_first_since_sglang_logs_there(tmp_path) -> None:
    port = free_port()
    with by_hand(f"{server(port)} > {tmp_path}/out 2> {tmp_path}/err; :"):
        assert wait_for(port).log == f"{tmp_path}/err"


def test_a_deleted_log_is_read_through_the_process(tmp_path) -> None:
    port = free_port()
    with by_hand(f"{server(port)} > {tmp_path}/log 2>&1; :"):
        wait_for(port)
        os.unlink(tmp_path / "log")
        (tmp_path / "log").write_text("another file of that name")
        found = wait_for(port)
        assert found.log_source == "file"
        assert "deleted" in (found.log_note or "")
        until(lambda: "ready to roll" in read(found.log))


@pytest.mark.parametrize("pipeline", ["tee {}", "tee -a {} > /dev/null", "cat | tee {} | cat", "cat > {}"])
def test_a_log_behind_pipes(tmp_path, pipeline: str) -> None:
    port = free_port()
    with by_hand(f"{server(port)} 2>&1 | {pipeline.format(tmp_path / 'log')}"):
        found = wait_for(port)
        assert (found.log_source, found.log) == ("tee", f"{tmp_path}/log")


def test_output_that_is_lost_or_unreachable_is_explained(tmp_path) -> None:
    ports = [free_port() for _ in range(2)]
    lines = [
        f"{server(ports[0])} > /dev/null 2>&1 &",
        f"{server(ports[1])} 2>&1 | cat > /dev/null &",
    ]
    with by_hand(" ".join([*lines, "wait"])):
        notes = [wait_for(port) for port in ports]
    assert [one.log_source for one in notes] == ["none"] * 2
    assert [one.log for one in notes] == [None] * 2
    assert "/dev/null" in (notes[0].log_note or "")
    assert "(cat), which writes it to no file" in (notes[1].log_note or "")
    assert "--log-command" in (notes[1].log_note or "")


def test_closed_outputs_are_explained() -> None:
    with fake_servers.session_of("/bin/sh", "-c", "exec sleep 600 >&- 2>&-") as process:
        until(lambda: proc.cmdline(process.pid)[:1] == ["sleep"])
        assert "closed" in (find_output(process.pid).note or "")


def test_files_that_it_reads_where_its_outputs_were_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("quiet = true")
    with fake_servers.session_of("/bin/sh", "-c", f"exec sleep 600 1<{tmp_path}/config 2<{tmp_path}/config") as process:
        until(lambda: proc.cmdline(process.pid)[:1] == ["sleep"])
        assert "closed" in (find_output(process.pid).note or "")
        assert all_outputs(process.pid) == []


def test_a_process_that_is_gone_has_no_output() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert find_output(process.pid).source == "none"


@needs_tmux
def test_a_tmux_pane(tmp_path) -> None:
    name = f"launchmon-test-{uuid.uuid4().hex[:8]}"
    tmux = ["tmux", "-L", name, "-f", "/dev/null"]
    port, logged = free_port(), free_port()
    environ = fake_servers.environment()
    subprocess.run([*tmux, "new-session", "-d", "-s", "work", server(port)], env=environ, check=True)
    try:
        line = f"{server(logged)} 2>&1 | tee {tmp_path}/log"
        subprocess.run([*tmux, "new-window", "-t", "work", line], env=environ, check=True)
        found = wait_for(port)
        assert found.log_source == "tmux"
        assert found.log is None
        assert found.pane is not None
        assert found.pane.name == "work:0.0"
        assert found.pane.id.startswith("%")
        captured = subprocess.run(
            ["tmux", "-S", found.pane.socket, "capture-pane", "-p", "-t", found.pane.id],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "ready to roll" in captured.stdout

        beside = wait_for(logged)
        assert (beside.log_source, beside.log, beside.pane) == ("tee", f"{tmp_path}/log", None)
        assert beside.tmux is not None, "it runs in a pane, though its log is a file"
        assert beside.tmux.is_named("work:1.0")
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
        for found in discover():
            if found.port in (port, logged):
                with contextlib.suppress(ProcessLookupError):  # it ends with its terminal
                    os.kill(found.pid, signal.SIGKILL)


def test_a_terminal_that_is_no_pane_is_explained() -> None:
    master, slave = os.openpty()
    try:
        with fake_servers.session_of("sleep", "600", stdout=slave, stderr=slave) as process:
            output = find_output(process.pid, panes=[])
            assert output.source == "none"
            assert os.ttyname(slave) in (output.note or "")
    finally:
        os.close(master)
        os.close(slave)
