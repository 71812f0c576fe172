"""The table of error texts: each row can be read, is reached by a text of its own, and says something whole."""

from __future__ import annotations

import pytest

from launchmon_agent.judge import tables
from launchmon_agent.judge.failures import FIELDS, Failure, failure_of, row_of, rows
from launchmon_agent.judge.tables import TableError
from launchmon_agent.sglang.rail import RAIL

EXAMPLES = {
    "kv-pool-no-memory": ("kv-pool", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    "larger-than-profiled": ("kv-pool", "max_total_tokens=1 is larger than the profiled value -17"),
    "memory-unbalanced": ("dist-init", "ValueError: The memory capacity is unbalanced."),
    "gpu-memory-weights": ("weights", "torch.OutOfMemoryError: CUDA out of memory."),
    "gpu-memory-draft": ("draft", "torch.OutOfMemoryError: CUDA out of memory."),
    "gpu-memory-graphs": ("graphs", "torch.OutOfMemoryError: CUDA out of memory."),
    "gpu-memory-serving": ("ready", "torch.OutOfMemoryError: CUDA out of memory."),
    "driver-symbol": ("start", "ImportError: x.so: undefined symbol: cuGreenCtxStreamCreate"),
    "abi-symbol": ("start", "ImportError: x.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSsb"),
    "missing-libnuma": ("start", "ImportError: libnuma.so.1: cannot open shared object file"),
    "missing-library": ("start", "ImportError: libnvrtc.so.12: cannot open shared object file: No such file"),
    "fabric-manager": ("start", "RuntimeError: Error 802: system not yet initialized"),
    "no-kernel-image": ("graphs", "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"),
    "no-python-headers": ("graphs", "main.c:5:10: fatal error: Python.h: No such file or directory"),
    "no-compiler": ("graphs", "FileNotFoundError: [Errno 2] No such file or directory: 'ninja' not found"),
    "build-failed": ("graphs", "ninja: build stopped: subcommand failed."),
    "shared-memory": ("dist-init", "Error while creating shared memory segment /dev/shm/nccl-1 (size 9637888)"),
    "locked-memory": ("autotune", "ibv_reg_mr_iova2 failed with error Cannot allocate memory"),
    "open-files": ("ready", "OSError: [Errno 24] Too many open files"),
    "unknown-flag": ("start", "launch_server.py: error: unrecognized arguments: --enable-reasoning"),
    "model-not-found": ("start", "OSError: Repo id must be in the form 'repo_name'"),
    "hub-refuses": ("start", "requests.exceptions.HTTPError: 401 Client Error: Unauthorized"),
    "hub-unreachable": ("start", "OSError: We couldn't connect to 'https://huggingface.co' to load this file"),
    "port-taken": ("http", "ERROR:    [Errno 98] error while attempting to bind on address"),
    "peers-not-loaded": (
        "weights",
        "RuntimeError: TP rank 0 could finish the model loading, but there are other ranks",
    ),
    "gloo-interface": ("dist-init", "RuntimeError: [enforce fail at device.cc:84] Unable to find address for: ^lo"),
    "rendezvous": ("dist-init", "RuntimeError: Gloo connectFullMesh failed with"),
    "collective-timeout": ("graphs", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3"),
    "scheduler-watchdog": ("ready", "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"),
    "no-such-gpu": ("dist-init", "RuntimeError: CUDA error: invalid device ordinal"),
    "illegal-access": ("warm-up", "CUDA error: an illegal memory access was encountered"),
    "not-divisible": ("weights", "AssertionError: assert numerator % denominator == 0"),
    "missing-module": ("start", "ModuleNotFoundError: No module named 'flashinfer'"),
}


def test_every_row_has_an_example() -> None:
    assert set(EXAMPLES) == {row.id for row in rows()}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_is_the_first_that_fits_its_example(row: Failure) -> None:
    phase, text = EXAMPLES[row.id]
    found = failure_of([text], phase)
    assert found is not None and found.id == row.id


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_is_whole(row: Failure) -> None:
    assert row.says.endswith(".") and row.says[0].isupper()
    assert row.phases <= set(RAIL)
    assert row.next is None or row.next.why


def test_the_last_detail_line_decides_before_the_wrappers_words() -> None:
    wrapper = "[sgl_kernel] CRITICAL: Could not load any common_ops library!"
    found = failure_of(["ImportError: libnuma.so.1: cannot open shared object file", wrapper], "start")
    assert found is not None and found.id == "missing-libnuma"


def test_only_what_is_asked_for_by_https_can_be_the_hub() -> None:
    text = "requests.exceptions.ConnectionError: {}(host='{}', port={}): Max retries exceeded with url: {}"
    hub = failure_of([text.format("HTTPSConnectionPool", "huggingface.co", 443, "/api/models/x")], "start")
    assert hub is not None and hub.id == "hub-unreachable"
    assert failure_of([text.format("HTTPConnectionPool", "127.0.0.1", 30000, "/model_info")], "warm-up") is None
    assert failure_of([text.format("HTTPConnectionPool", "10.0.0.1", 8998, "/route?engine_rank=-1")], "ready") is None


def test_an_unknown_text_is_nothing() -> None:
    assert failure_of(["ValueError: no", ""], "weights") is None


@pytest.mark.parametrize(
    "text",
    [
        "[x]\nmatch: a\n",
        "[x]\nmatch: (\nphases: all\nsays: A.\ndo: run\nchange: -\nwhy: b\nsource: run\n",
        "[x]\nmatch: a\nphases: nowhere\nsays: A.\ndo: run\nchange: -\nwhy: b\nsource: run\n",
        "[x]\nmatch: a\nphases: all\nsays: A.\ndo: pray\nchange: -\nwhy: b\nsource: run\n",
        "no section",
    ],
)
def test_a_broken_table_is_refused(text: str) -> None:
    with pytest.raises(TableError):
        [row_of(*section) for section in tables.parse(text, FIELDS)]
