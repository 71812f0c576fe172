"""How serious lines are: each row of the table, SGLang's grammar over the releases, and what continues a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchmon_agent.log.level import LEVELS, LevelRow, inherited, level_of, level_rows, may_tell
from launchmon_agent.sglang import table
from tests.support.sglang_wording import RELEASES, Wording

EXAMPLES = (
    ("info", "INFO:     127.0.0.1:33322 - \"GET /health HTTP/1.1\" 503 Service Unavailable"),
    ("error", "ERROR:    Exception in ASGI application"),
    ("warning", "WARNING:  Invalid HTTP request received."),
    ("info", "gpu7:4711:4711 [0] NCCL INFO Channel 00/02 : 0 1 2 3"),
    ("error", "gpu7:4711:4711 [0] NCCL ERROR Call to bind failed"),
    ("info", "[I1129 16:04:07.824 ProcessGroupNCCL.cpp:555] ProcessGroupNCCL initialization options"),
    ("warning", "[W1129 16:04:07.824 socket.cpp:759] [c10d] The hostname cannot be resolved"),
    ("error", "[E1129 16:04:07.824 ProcessGroupGloo.cpp:144] Rank 0 did not come"),
    ("info", "I20260101 10:00:00.000000 17 transfer_engine.cpp:88] Transfer Engine is ready"),
    ("warning", "W20260101 10:00:00.000000 17 rdma.cpp:88] no device"),
    ("error", "E20260101 10:00:00.000000 17 rdma.cpp:88] no memory"),
    ("info", "Capturing batches (bs=8 avail_mem=27.49 GB):  33%|███▎ | 1/3 [00:00<00:00,  6.66it/s]"),
    ("info", "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"),
    ("warning", "/opt/env/awq.py:53: UserWarning: Only CUDA, HIP and XPU support AWQ currently."),
    ("error", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
    ("error", "KeyboardInterrupt"),
    ("error", "During handling of the above exception, another exception occurred:"),
    ("error", "Exception in thread Thread-7 (run):"),
    ("error", "[http_server] error: the tokenizer is missing"),
    ("error", "Failed to import the kernel"),
    ("warning", "'--enable-dp-attention' is deprecated and will be removed in a future release."),
    ("warning", "Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit"),
    ("warning", "WARNING the cache is cold"),
    ("warning", "Waiting for the router timed out after 30 s"),
)  # fmt: skip

BENIGN = (
    "Ignore import error when loading sglang.srt.models.grok: No module named 'x'",
    "Failed to load NCCL library from /nonexistent/libnccl.so . It is expected if you are not running on NVIDIA",
    "Setup Custom allreduce failed with . To silence this warning, specify --disable-custom-all-reduce explicitly.",
    "Pyspy failed (py-spy dump --native --pid 3595). Error: /bin/sh: 1: py-spy: not found",
    "Decode batch, #running-req: 12, #token: 123456, token usage: 0.42, #queue-req: 0",
    "[http_server] Error: Request is disconnected from the client side (type 1). Abort request obj.rid='7f'",
)

STAMPS = (
    "[16:14:43 TP1] ",
    "[2026-11-29 16:14:43 TP1] ",
    "[2026-11-29 16:14:43.123 DP1 TP0] ",
    "[2026-11-29 16:14:43] ",
)


@pytest.mark.parametrize("row", level_rows(), ids=lambda row: row.pattern.pattern.decode())
def test_each_row_decides_an_example_that_has_its_anchor(row: LevelRow) -> None:
    assert row.level in LEVELS
    decided = [
        (level, line)
        for level, line in EXAMPLES
        if next((one for one in level_rows() if one.pattern.search(line.encode())), None) is row
    ]
    assert decided, "no example"
    for level, line in decided:
        assert level == row.level
        assert any(anchor in line.encode() for anchor in row.anchors)


@pytest.mark.parametrize(("level", "line"), EXAMPLES)
def test_wording_tells_the_level_with_and_without_a_prefix(level: str, line: str) -> None:
    for stamp in ("", *STAMPS):
        assert level_of(f"{stamp}{line}".encode()) == level
        assert may_tell(f"{stamp}{line}\n".encode(), level)


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("line", BENIGN)
def test_what_looks_like_a_failure_and_is_none(line: str, stamp: str) -> None:
    assert level_of(f"{stamp}{line}".encode()) == "info"


@pytest.mark.parametrize("name", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
def test_a_level_name_behind_the_stamp_counts_more_than_the_wording(name: str) -> None:
    line = f"[2026-11-29 16:14:43 TP1] {name} core.py:524: Failed to find an Error".encode()
    assert level_of(line) == {"CRITICAL": "error"}.get(name, name.lower())


def test_errors_of_the_table_have_its_severity() -> None:
    lines = (Path(__file__).parents[1] / "sglang" / "examples.log").read_bytes().splitlines()
    for line in lines:
        row = next((one for one in table.error_rows() if one.pattern.search(line)), None)
        if row is None:
            continue
        level = level_of(b"[2026-11-29 16:14:43 TP1] " + line)
        wanted = {"benign": {"info", "warning"}, "warning": {"warning"}}.get(row.severity, {"error"})
        assert level in wanted, (row.id, line)


@pytest.mark.parametrize("release", RELEASES)
def test_the_launch_of_every_release_has_no_error_in_it(release: str) -> None:
    wording = Wording(release)
    wording.arguments()
    wording.dist_init()
    assert [level_of(line.encode()) for line in wording.lines] == ["info"] * len(wording.lines)


def test_a_line_that_continues_tells_nothing() -> None:
    for line in (b'  File "scheduler.py", line 12, in run', b"    raise ValueError(", b"rc=137", b"plain words"):
        assert level_of(line) is None
    assert level_of(b"") == level_of(b"   ") == "info"


def test_colours_do_not_hide_a_level() -> None:
    assert level_of(b"\x1b[1;33m[2026-11-29 16:30:25] \x1b[31mWARNING: x\x1b[0m") == "warning"


@pytest.mark.parametrize(
    ("level", "line", "goes_on"),
    [
        ("error", b'  File "x.py"', "error"),
        ("error", b"RuntimeErrors say so", "error"),
        ("warning", b"  warnings.warn(", "warning"),
        ("warning", b"next", "info"),
        ("info", b"  anything", "info"),
        ("debug", b"  anything", "info"),
    ],
)
def test_what_continues_a_record_has_its_level(level: str, line: bytes, goes_on: str) -> None:
    assert inherited(level, line) == goes_on


def test_a_quick_look_passes_over_what_a_busy_server_writes() -> None:
    routine = (
        b"[2026-01-01 00:00:01 TP3] Decode batch, #running-req: 3, token usage: 0.12, #queue-req: 0\n"
        b"[2026-01-01 00:00:01 TP3] Prefill batch, #new-seq: 1\n"
        b'[2026-01-01 00:00:01] INFO:     1.2.3.4:1 - "GET /Error HTTP/1.1" 500 Internal Server Error\n'
    )
    assert not may_tell(routine * 100, "warning")
    assert may_tell(routine + b"[2026-01-01 00:00:01 TP3] CUDA error: x\n" + routine, "error")
    assert may_tell(routine + b"UserWarning: x", "warning") and not may_tell(routine + b"UserWarning: x", "error")
