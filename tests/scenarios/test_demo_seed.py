"""The demo's dead-lock with real processes: a true circular wait, silent in every respect, cured by one flag."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.demo import READY, DemoServer
from tests.support.waiting import until

SPEED = "10"


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoServer]:
    """Eight ranks in the dead-lock, for the tests that leave them there."""
    yield from _stuck(tmp_path_factory.mktemp("stuck"), 8)


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[DemoServer]:
    """Four, to be ended."""
    yield from _stuck(tmp_path, 4)


def _stuck(directory: Path, count: int) -> Iterator[DemoServer]:
    server = DemoServer(directory, "--tp", str(count), "--scenario", "seed", "--speed", SPEED)
    try:
        server.wait_for_ranks(count, "Load weight end.")
        until(lambda: _work(server) == _later(server))
        yield server
    finally:
        server.end()


def ranks(server: DemoServer) -> list[psutil.Process]:
    return [process for title, process in server.titles().items() if title.startswith("sglang::scheduler_TP")]


def test_every_rank_sleeps_in_a_receive_and_nothing_moves(stuck: DemoServer) -> None:
    all_ranks = ranks(stuck)
    assert len(all_ranks) == 8
    before = _work(stuck)
    size = stuck.log_path.stat().st_size
    time.sleep(2)
    assert _work(stuck) == before
    assert stuck.log_path.stat().st_size == size
    assert {rank.status() for rank in all_ranks} == {psutil.STATUS_SLEEPING}
    for rank in all_ranks:
        assert rank.children() == []
        # Number of the system call that it is in, and its arguments; readable for the owner without ptrace scope.
        call = _system_call(rank.pid)
        assert call in (None, "recvfrom")


def test_the_gpus_are_idle_and_equally_full(stuck: DemoServer) -> None:
    until(lambda: {gpu["util_percent"] for gpu in stuck.gpus()} == {0.0})
    gpus = stuck.gpus()
    assert len(gpus) == 8
    assert len({gpu["memory_used"] for gpu in gpus}) == 1
    assert gpus[0]["memory_used"] > 0.6 * gpus[0]["memory_total"]
    assert all(gpu["power_w"] < 0.2 * gpu["power_limit_w"] for gpu in gpus)


def test_the_log_ends_with_the_weights_and_the_port_is_closed(stuck: DemoServer) -> None:
    last = stuck.log.rstrip().splitlines()[-1]
    assert "Load weight end. elapsed=" in last
    for word in ("Memory pool end", "Capture", "Uvicorn", "exception"):
        assert word not in stuck.log
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", stuck.port)) != 0


def test_sigterm_frees_everything(doomed: DemoServer) -> None:
    doomed.process.send_signal(signal.SIGTERM)
    assert doomed.exit_status() == -signal.SIGTERM
    until(lambda: not doomed.survivors())


def test_a_killed_rank_fails_the_launch_in_sglangs_words(doomed: DemoServer) -> None:
    ranks(doomed)[3].kill()
    assert doomed.exit_status() == -signal.SIGKILL
    log = doomed.log
    assert "Scheduler hit an exception: Traceback (most recent call last):" in log
    assert "in init_memory_pool" in log
    assert "Received sigquit from a child process. It usually means the child failed." in log
    assert f"kill_process_tree called: parent_pid={doomed.process.pid}, include_parent=True" in log
    until(lambda: not doomed.survivors())


@pytest.mark.parametrize("flag", ["--disable-cuda-graph", "--disable-decode-cuda-graph"])
def test_without_graphs_the_same_launch_gets_ready(tmp_path: Path, flag: str) -> None:
    server = DemoServer(tmp_path, "--tp", "4", "--scenario", "seed", "--speed", SPEED, flag)
    try:
        server.wait_for(READY)
        assert server.log.count("Memory pool end. avail mem=") == 4
        assert server.log.count("CustomAllreduce is disabled because it's not supported on more than two PCIe") == 4
        assert "Capture" not in server.log
        assert f"'{flag[2:].replace('-', '_')}': True" in server.log
    finally:
        server.end()


def _work(server: DemoServer) -> list[object]:
    """CPU time and context switches of each rank: the same again of one that stands still."""
    return [(rank.cpu_times()[:2], rank.num_ctx_switches()) for rank in ranks(server)]


def _later(server: DemoServer) -> list[object]:
    time.sleep(0.5)
    return _work(server)


def _system_call(pid: int) -> str | None:
    """None where the kernel does not tell."""
    try:
        number = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except OSError:
        return None
    return {"45": "recvfrom", "207": "recvfrom"}.get(number, number)  # x86-64, arm64
