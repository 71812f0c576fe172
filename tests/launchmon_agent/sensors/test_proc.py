"""The readers of /proc on real processes, and their parsers on texts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from launchmon_agent.sensors import proc, sockdiag
from tests.support.sessions import session_members
from tests.support.waiting import until

NOBODY = 2**22 + 5  # above the kernel's largest pid


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    proc.wait_for_exec(child.pid)
    until(lambda: proc.cmdline(child.pid) == ["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def fork(code: Callable[[], object]) -> int:
    """A child that runs ``code`` and is not waited for."""
    pid = os.fork()
    if pid == 0:
        code()
        os._exit(99)
    return pid


def test_a_process_is_named_by_pid_and_start_time(sleeper: subprocess.Popen[bytes]) -> None:
    began = proc.start_time(sleeper.pid)
    assert began is not None
    assert abs(began - time.time()) < 60
    assert proc.same_process(sleeper.pid, began)
    assert proc.same_process(sleeper.pid, round(began, 3)), "as it travels through JSON"
    assert not proc.same_process(sleeper.pid, began - 5)
    assert proc.alive(sleeper.pid, began)


def test_nobody_is_none_everywhere() -> None:
    assert proc.stat(NOBODY) is None
    assert proc.start_time(NOBODY) is None
    assert not proc.same_process(NOBODY, 0.0)
    assert not proc.alive(NOBODY, 0.0)
    assert proc.cmdline(NOBODY) == []
    assert proc.environ(NOBODY) is None
    assert proc.memory(NOBODY) is None
    assert proc.io_bytes(NOBODY) is None
    assert proc.wchan(NOBODY) is None
    assert proc.syscall(NOBODY) is None
    assert proc.fd_links(NOBODY) is None
    assert proc.namespace(NOBODY, "net") is None
    assert proc.listening_inodes(NOBODY, 80) is None
    assert proc.port_owner(NOBODY, 80) is None


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("end, code", [(lambda: os._exit(0), 0), (lambda: os._exit(7), 7), (kill_itself, -9)])
def test_a_zombie_tells_its_exit_code(end: Callable[[], object], code: int) -> None:
    pid = fork(end)
    try:
        until(lambda: (row := proc.stat(pid)) is not None and row.dead)
        row = proc.stat(pid)
        assert row is not None
        assert row.exit_code == code
        assert proc.same_process(pid, row.start_time)
        assert not proc.alive(pid, row.start_time)
        assert proc.cmdline(pid) == []
        sizes = proc.memory(pid)
        assert sizes is not None
        assert sizes.anon is None
    finally:
        os.waitpid(pid, 0)


def test_a_zombie_that_hides_its_status_has_no_exit_code() -> None:
    fields = ["0"] * 50
    fields[0], fields[17] = "Z", "1"
    hidden = proc.parse_stat(f"5 (sglang::schedul) {' '.join(fields)}\n".encode())
    assert hidden is not None
    assert hidden.exit_code is None
    fields[49] = "9"
    shown = proc.parse_stat(f"5 (sglang::schedul) {' '.join(fields)}\n".encode())
    assert shown is not None
    assert shown.exit_code == -9


def test_a_main_thread_that_ended_first_is_not_a_dead_process() -> None:
    fields = ["0"] * 50
    fields[0], fields[17] = "Z", "12"
    row = proc.parse_stat(f"5 (python3) {' '.join(fields)}\n".encode())
    assert row is not None
    assert not row.dead
    assert row.exit_code is None


def test_a_name_with_brackets_and_spaces() -> None:
    row = proc.parse_stat(b"42 (a) R (b) S 7 8 9 0 -1 0 1 2 3 4 10 20 30 40 20 0 6 0 555 0 0")
    assert row is not None
    assert (row.comm, row.state, row.ppid, row.session) == ("a) R (b", "S", 7, 9)
    assert (row.major_faults, row.utime, row.stime, row.cutime, row.cstime) == (3, 10, 20, 30, 40)
    assert (row.threads, row.start_ticks) == (6, 555)


@pytest.mark.parametrize("torn", [b"", b"42", b"42 (python", b"42 (python3) S 1 2"])
def test_a_torn_stat_is_none(torn: bytes) -> None:
    assert proc.parse_stat(torn) is None


def test_a_stopped_process_shows_it(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    until(lambda: (row := proc.stat(sleeper.pid)) is not None and row.state == "T")


def test_memory_is_split_by_kind(sleeper: subprocess.Popen[bytes]) -> None:
    until(lambda: proc.wchan(sleeper.pid) or proc.syscall(sleeper.pid))  # it has gone to sleep, which is a switch
    sizes = proc.memory(sleeper.pid)
    assert sizes is not None
    assert sizes.anon is not None and sizes.anon > 0
    assert sizes.file is not None and sizes.file > 0
    assert sizes.context_switches is not None and sizes.context_switches > 0
    assert sizes.nspid[0] == sleeper.pid


def test_memory_of_a_nested_namespace_and_of_a_zombie() -> None:
    nested = proc.parse_memory(
        b"Name:\tx\nNSpid:\t4242\t17\nRssAnon:\t       3 kB\nRssFile:\t  2 kB\nRssShmem:\t1 kB\n"
        b"voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n"
    )
    assert nested == proc.Memory(3072, 2048, 1024, 11, (4242, 17))
    assert proc.parse_memory(b"Name:\tx\nState:\tZ (zombie)\n") == proc.Memory(None, None, None, None, ())


def test_io_counts_storage_only() -> None:
    assert proc.io_bytes(os.getpid()) is not None


def test_environment_and_arguments() -> None:
    child = subprocess.Popen(["sleep", "60"], env={"A": "1", "EMPTY": "", "B": "x=y"})
    proc.wait_for_exec(child.pid)
    try:
        until(lambda: proc.cmdline(child.pid) == ["sleep", "60"])
        assert proc.environ(child.pid) == {"A": "1", "EMPTY": "", "B": "x=y"}
    finally:
        child.kill()
        child.wait()


def test_an_exec_is_waited_for_until_its_arguments_are_there(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = [["sleep", "60"], [], []]
    monkeypatch.setattr(proc, "cmdline", lambda _: seen.pop())
    proc.wait_for_exec(sleeper.pid)
    assert seen == []


def test_nobody_waits_for_the_exec_of_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc.time, "sleep", lambda _: pytest.fail("waited"))
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    proc.wait_for_exec(child.pid)
    child.wait()
    proc.wait_for_exec(child.pid)


def test_an_overwritten_environment_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "read", lambda path: b"\0" * 400)
    assert proc.environ(1) is None
    assert proc.cmdline(1) == []


def test_a_title_is_the_only_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "read", lambda path: b"sglang::scheduler_TP0\0\0\0\0")
    assert proc.cmdline(1) == ["sglang::scheduler_TP0"]


def test_descriptors(tmp_path: object) -> None:
    path = f"{tmp_path}/file"
    with open(path, "wb") as file:
        links = proc.fd_links(os.getpid())
        assert links is not None
        assert links[file.fileno()] == os.path.realpath(path)


def test_children_and_the_session() -> None:
    script = "import subprocess,time\nsubprocess.Popen(['sh','-c','sleep 61 & sleep 62'])\ntime.sleep(60)"
    top = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    try:
        until(lambda: [row.comm for row in session_members(top.pid)][1:] == ["sh", "sleep", "sleep"])
        rows = proc.table()
        (shell,) = proc.children(top.pid, rows)
        os.kill(shell.pid, signal.SIGKILL)
        until(lambda: not proc.children(shell.pid))  # the shell is a zombie; its children are orphans
        assert len(session_members(top.pid)) == 4
    finally:
        os.killpg(top.pid, signal.SIGKILL)
        top.wait()


@pytest.mark.parametrize("family, address", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_owner_of_a_port(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip(f"this machine has no {address}")
        port = server.getsockname()[1]
        assert proc.listening_inodes(os.getpid(), port) == set()
        assert proc.port_owner(os.getpid(), port) is None
        server.listen()
        assert proc.listeners(os.getpid(), port) == {os.fstat(server.fileno()).st_ino: address}
        assert proc._listeners_by_text(os.getpid(), port) == {os.fstat(server.fileno()).st_ino: address}
        assert proc.listening_inodes(os.getpid(), port) == {os.fstat(server.fileno()).st_ino}
        assert proc.port_owner(os.getpid(), port) == os.getpid()
        assert proc.port_owner(os.getpid(), port, likely=(1, os.getpid())) == os.getpid()


@pytest.mark.parametrize("answer", [OSError(), b"", b"\x24\0\0\0\x02\0\0\0" + b"\0" * 28])
def test_without_netlink_the_text_is_read(monkeypatch: pytest.MonkeyPatch, answer: OSError | bytes) -> None:
    """No such family, an answer that never ends, an answer that is an error."""

    class Netlink:
        def __init__(self, *how: int) -> None:
            if isinstance(answer, OSError):
                raise answer

        def __enter__(self) -> Netlink:  # noqa: PYI034
            return self

        def __exit__(self, *_: object) -> None: ...
        def settimeout(self, seconds: float) -> None: ...
        def send(self, data: bytes) -> None: ...

        def recv(self, size: int) -> bytes:
            if not answer:
                raise TimeoutError
            assert isinstance(answer, bytes)
            return answer

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(sockdiag.socket, "socket", Netlink)
        assert sockdiag.listeners(server.getsockname()[1]) is None
        assert proc.listeners("self", server.getsockname()[1]) == {os.fstat(server.fileno()).st_ino: "127.0.0.1"}


def test_a_connection_is_no_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            with accepted:
                assert proc.listening_inodes(os.getpid(), port) == {os.fstat(server.fileno()).st_ino}


def test_the_limits_of_a_process_that_keep_a_server_from_working() -> None:
    limits = "r.setrlimit(r.RLIMIT_NOFILE, (64, 256)); r.setrlimit(r.RLIMIT_MEMLOCK, (4096, 8192))"
    program = f"import resource as r, time; {limits}; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as limited:
        assert limited.stdout is not None
        limited.stdout.readline()
        assert proc.limits(limited.pid) == {"open-files": 256, "locked-memory": 4096}
        limited.kill()
    assert proc.limits(limited.pid) == {}


def test_the_newest_pid_is_the_last_one_given_out() -> None:
    before = proc.newest_pid()
    pid = fork(lambda: os._exit(0))
    try:
        after = proc.newest_pid()
        assert before is not None and after is not None
        assert after >= pid if before < pid else after < before
    finally:
        os.waitpid(pid, 0)
