"""The demo's healthy launch with real processes: every phase to ready, serving, and every way to end."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.demo import READY, DemoServer, command_of
from tests.support.ports import free_port
from tests.support.waiting import until

SPEED = "8"

EVERY_RANK = (
    r"Init parallel begin\.",
    r"Init parallel ends\. elapsed=[\d.]+ s",
    r"Memory baseline taken\. mem usage=[\d.]+ GB",
    r"Load weight begin\. avail mem=[\d.]+ GB",
    r"Load weight end\. elapsed=[\d.]+ s, type=\w+, .*?avail mem=[\d.]+ GB, mem usage=[\d.]+ GB\.",
    r"KV Cache is allocated\. dtype: \S+, #tokens: \d+, KV size: [\d.]+ GB",
    r"Memory pool end\. avail mem=[\d.]+ GB",
    r"Disable prefill CUDA graph because ",
    r"Capture target decode CUDA graph begin\.",
    r"Capture target decode CUDA graph end\. bs=\[[\d, ]*\], elapsed=[\d.]+ s, mem usage=[\d.]+ GB, avail mem=",
)
"""What SGLang 0.5.23 writes for each rank, in order."""

LAUNCHER = (
    r"launchmon demo: simulated SGLang, no GPU is used",
    r"server_args=\{",
    (
        r"Engine startup timings \(s\): load_weight=[\d.]+, kv_cache_allocation=[\d.]+, scheduler_e2e=[\d.]+, "
        r"cuda_graph=\{[^}]*\}, tokenizer_e2e=[\d.]+$"
    ),
    r"INFO:     Started server process \[\d+\]",
    r"INFO:     Waiting for application startup\.",
    r"INFO:     Application startup complete\.",
    r"INFO:     Uvicorn running on http://127\.0\.0\.1:\d+ \(Press CTRL\+C to quit\)",
    r'INFO:     127\.0\.0\.1:\d+ - "GET /model_info HTTP/1\.1" 200 OK',
    r'INFO:     127\.0\.0\.1:\d+ - "POST /generate HTTP/1\.1" 200 OK',
    r'INFO:     127\.0\.0\.1:\d+ - "POST /freeze_gc HTTP/1\.1" 200 OK',
    re.escape(READY),
)


def in_order(lines: list[str], tag: str, patterns: tuple[str, ...]) -> list[str]:
    """The patterns that were not found after the one before them, on lines with this tag.

    A line may begin with a bar that another rank has left unfinished.
    """
    stamp = rf"\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d{tag}\] "
    rest = iter(lines)
    return [pattern for pattern in patterns if not any(re.search(stamp + pattern, line) for line in rest)]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoServer]:
    """One ready server, for the tests that leave it as it is."""
    server = DemoServer(tmp_path_factory.mktemp("serving"), "--tp", "4", "--speed", SPEED)
    try:
        server.wait_for(READY)
        yield server
    finally:
        server.end()


@pytest.fixture
def healthy(tmp_path: Path) -> Iterator[DemoServer]:
    """One to be ended."""
    server = DemoServer(tmp_path, "--tp", "2", "--speed", SPEED)
    try:
        server.wait_for(READY)
        yield server
    finally:
        server.end()


def test_the_log_tells_every_phase_in_order(serving: DemoServer) -> None:
    lines = serving.lines
    assert in_order(lines, "", LAUNCHER) == []
    for rank in range(4):
        assert in_order(lines, f" TP{rank}", EVERY_RANK) == []
    assert (
        in_order(lines, " TP0", (r"sglang is using nccl==\S+", r"max_total_num_tokens=\d+, chunked_prefill_size="))
        == []
    )
    assert in_order(lines, " TP0", (r"Prefill batch, #new-seq: 1, ",)) == []
    bars = [line for line in lines if line.startswith("Multi-thread loading shards: ")]
    assert re.match(r"Multi-thread loading shards: 100% Completed \| 64/64 \[", bars[-1])
    assert [line for line in lines if line.startswith("Capturing batches (bs=1 avail_mem=")]
    assert "Error" not in serving.log


def untitled(launcher: psutil.Process) -> list[str]:
    """What each child of the launcher is by its command line; one that has not yet begun its own is not counted."""
    known = ("multiprocessing.resource_tracker", "multiprocessing.spawn import spawn_main")
    commands = [command_of(child) for child in launcher.children()]
    return sorted(what for command in commands for what in known if what in command)


def test_processes_have_sglangs_titles_only_after_their_imports(tmp_path: Path) -> None:
    server = DemoServer(tmp_path, "--tp", "2", "--speed", "2")
    try:
        launcher = psutil.Process(server.process.pid)
        begun = ["multiprocessing.resource_tracker", *(3 * ["multiprocessing.spawn import spawn_main"])]
        until(lambda: untitled(launcher) == begun)
        titles = {"sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"}
        until(lambda: set(server.titles()) == titles)
        rank = server.titles()["sglang::scheduler_TP1"]
        until(lambda: Path(f"/proc/{rank.pid}/comm").read_text() == "sglang::schedul\n")
    finally:
        server.end()


def test_a_single_rank_has_no_tag(tmp_path: Path) -> None:
    server = DemoServer(tmp_path, "--tp", "1", "--speed", SPEED)
    try:
        server.wait_for(READY)
        assert set(server.titles()) == {"sglang::scheduler", "sglang::detokenizer"}
        assert in_order(server.lines, "", EVERY_RANK) == []
        assert " TP0]" not in server.log
    finally:
        server.end()


def test_environment_of_every_process_stays_readable(serving: DemoServer) -> None:
    for process in serving.titles().values():
        environment = process.environ()
        assert environment["LAUNCHMON_SIMULATED_GPUS"] == str(serving.gpu_path)
        assert environment["SGLANG_RUN_ID"].startswith("sglang-run-")


def test_http_answers_as_sglang_does(serving: DemoServer) -> None:
    until(lambda: serving.ask("/ready")[0] == 200)
    status, info = serving.ask("/model_info")
    assert (status, info["model_path"]) == (200, "demo/kimi-k2.5")
    before = serving.log.count("Prefill batch")
    assert serving.ask("/health")[0] == 200
    assert serving.log.count("Prefill batch") == before + 1
    status, answer = serving.ask("/generate", {"text": "one two", "sampling_params": {"max_new_tokens": 90}})
    assert status == 200
    assert answer["text"].startswith("this answer is simulated")
    assert answer["meta_info"]["completion_tokens"] == 90
    assert serving.log.count("Decode batch, #running-req: 1, ") == 2
    assert serving.ask("/generate", ["not a request"])[0] == 400
    assert serving.ask("/nothing")[0] == 404


def test_not_ready_before_the_warm_up_is_answered(tmp_path: Path) -> None:
    server = DemoServer(tmp_path, "--tp", "1", "--speed", SPEED)
    try:
        until(lambda: "sglang::detokenizer" in server.titles())
        detokenizer = server.titles()["sglang::detokenizer"]
        detokenizer.suspend()
        server.wait_for("Prefill batch")
        assert server.ask("/ready")[0] == 503
        assert server.ask("/health")[0] == 503
        assert server.ask("/model_info")[0] == 200
        assert READY not in server.log
        detokenizer.resume()
        server.wait_for(READY)
    finally:
        server.end()


def test_idle_ranks_are_quiet(serving: DemoServer) -> None:
    processes = [psutil.Process(serving.process.pid), *serving.titles().values()]
    began, used = time.monotonic(), _cpu_seconds(processes)
    size = serving.log_path.stat().st_size
    until(lambda: time.monotonic() - began > 3)
    assert (_cpu_seconds(processes) - used) / (time.monotonic() - began) <= 0.02
    assert serving.log_path.stat().st_size == size


def test_ranks_are_light_and_their_memory_is_mostly_the_mapped_checkpoint(serving: DemoServer) -> None:
    status = Path(f"/proc/{serving.titles()['sglang::scheduler_TP1'].pid}/status").read_text()
    kib = {name: int(value) for name, value in re.findall(r"^(Rss\w+):\s+(\d+) kB", status, re.MULTILINE)}
    assert kib["RssAnon"] < 15 * 1024
    assert kib["RssFile"] + kib["RssShmem"] > 3 * kib["RssAnon"]


def test_gpus_fill_work_and_empty(tmp_path: Path) -> None:
    server = DemoServer(tmp_path, "--tp", "2", "--speed", "4")
    try:
        samples = []
        while READY not in server.log:
            if server.gpu_path.exists():
                samples.append(server.gpus())
            assert server.process.poll() is None
            time.sleep(0.1)
        first = [sample[0] for sample in samples]
        used = [gpu["memory_used"] for gpu in first]
        assert used == sorted(used)
        assert len(set(used)) > 4
        assert used[-1] > 0.8 * first[-1]["memory_total"]
        assert max(gpu["util_percent"] for gpu in first) >= 35
        assert max(gpu["power_w"] for gpu in first) > 2 * first[0]["power_w"]
        unused = server.gpus()[2]
        assert (unused["processes"], unused["util_percent"]) == ([], 0)
        ranks = server.titles()
        assert [gpu["processes"][0]["pid"] for gpu in server.gpus()[:2]] == [
            ranks["sglang::scheduler_TP0"].pid,
            ranks["sglang::scheduler_TP1"].pid,
        ]
        server.process.kill()
        server.exit_status()
        until(lambda: all(not gpu["processes"] for gpu in server.gpus()))
        assert {gpu["memory_used"] for gpu in server.gpus()} == {unused["memory_used"]}
    finally:
        server.end()


def test_sigterm_ends_everything_cleanly(healthy: DemoServer) -> None:
    healthy.process.send_signal(signal.SIGTERM)
    assert healthy.exit_status() == 0
    until(lambda: not healthy.survivors())
    farewell = (
        r"SIGTERM received\. signum=None frame=None\. Draining requests and shutting down\.\.\.",
        r"Gracefully exiting\.\.\. Remaining number of requests 0\. Remaining requests remaining_rids=\[\]\.",
        r"kill_process_tree called: ",
        r"INFO:     Shutting down",
        r"INFO:     Waiting for application shutdown\.",
        r"INFO:     Application shutdown complete\.",
        r"INFO:     Finished server process \[\d+\]",
    )
    assert in_order(healthy.lines, "", farewell) == []
    until(lambda: os.listdir(healthy.temporary) == [] and not healthy.gpu_path.exists())


def test_sigterm_during_the_launch_is_the_end_of_all(tmp_path: Path) -> None:
    server = DemoServer(tmp_path, "--tp", "2", "--speed", "2")
    try:
        server.wait_for("Load weight begin")
        server.process.send_signal(signal.SIGTERM)
        assert server.exit_status() == -signal.SIGTERM
        until(lambda: not server.survivors())
        assert "SIGTERM received" not in server.log
    finally:
        server.end()


def test_orphans_of_a_launcher_killed_during_the_imports_end_themselves(tmp_path: Path) -> None:
    server = DemoServer(tmp_path, "--tp", "2", "--speed", "2")
    try:
        launcher = psutil.Process(server.process.pid)
        until(lambda: len(launcher.children()) == 4)
        orphans = [child for child in launcher.children() if "spawn_main" in command_of(child)]
        server.process.kill()
        server.exit_status()
        assert [orphan for orphan in orphans if orphan.is_running()], "they outlive the launcher, as SGLang's do"
        until(lambda: not server.survivors())
        assert "Init parallel begin" not in server.log
    finally:
        server.end()


def test_a_rank_killed_while_serving_takes_the_server_with_it(healthy: DemoServer) -> None:
    healthy.titles()["sglang::scheduler_TP1"].kill()
    assert healthy.exit_status() == -signal.SIGKILL
    assert "SIGQUIT received. signum=None, frame=None. It usually means one child failed." in healthy.log
    assert "Scheduler hit an exception: Traceback (most recent call last):" in healthy.log
    assert "Connection closed by peer" in healthy.log
    until(lambda: not healthy.survivors())


def test_a_rank_killed_during_the_imports_is_named(tmp_path: Path) -> None:
    server = DemoServer(tmp_path, "--tp", "2", "--speed", "2")
    try:
        launcher = psutil.Process(server.process.pid)
        until(lambda: len(launcher.children()) == 4)
        ranks = [child for child in launcher.children() if "spawn_main" in command_of(child)]
        ranks[0].kill()
        assert server.exit_status() == 1
        assert "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9)." in server.log
        until(lambda: not server.survivors())
    finally:
        server.end()


def test_a_port_in_use_is_found_out_last_and_the_ready_line_lies(tmp_path: Path) -> None:
    first = DemoServer(tmp_path / "first", "--tp", "1", "--speed", SPEED, port=free_port())
    second = None
    try:
        first.wait_for(READY)
        second = DemoServer(tmp_path / "second", "--tp", "1", "--speed", SPEED, port=first.port)
        assert second.exit_status() == 3
        assert "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', " in second.log
        assert READY in second.log
        assert "Uvicorn running" not in second.log
        assert first.process.poll() is None
        until(lambda: second is not None and not second.survivors())
    finally:
        first.end()
        if second is not None:
            second.end()


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))
