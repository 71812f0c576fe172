"""The shim without SGLang: wedging a function by title, and what stands in for the kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SHIM = Path(__file__).parent / "shim"

LOADER = "class Loader:\n    def load(self):\n        return 'loaded'\n"


def run(code: str, path: Path, stuck: str | None = None, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(SHIM), str(path)])}
    if stuck:
        env["LAUNCHMON_RIG_STUCK"] = stuck
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=timeout)


def load_as(title: str) -> str:
    return f"import setproctitle; setproctitle.setproctitle({title!r}); import loader; print(loader.Loader().load())"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "loader.py").write_text(LOADER)
    return tmp_path


@pytest.mark.parametrize("title", ["sglang::scheduler_TP0", "python"])
def test_other_ranks_are_left_alone(path: Path, title: str) -> None:
    done = run(load_as(title), path, "TP1:loader:Loader.load:raise")
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr


def test_raise(path: Path) -> None:
    done = run(load_as("sglang::scheduler_TP1"), path, "TP1:loader:Loader.load:raise")
    assert done.returncode == 1
    assert "this rank was told to fail here" in done.stderr


def test_kill(path: Path) -> None:
    assert run(load_as("sglang::scheduler_TP1"), path, "TP1:loader:Loader.load:kill").returncode == -signal.SIGKILL


@pytest.mark.parametrize("how", ["", ":sleep", ":spin", ":lock", ":socket"])
def test_stuck(path: Path, how: str) -> None:
    """The watchdog thread of the test's own code ends the process, which shows that the function never returned."""
    code = "import os, threading; threading.Timer(0.5, os._exit, (7,)).start(); " + load_as("sglang::scheduler_TP1")
    done = run(code, path, f"TP1:loader:Loader.load{how}")
    assert (done.returncode, done.stdout) == (7, ""), done.stderr


def test_nothing_is_wedged_without_an_order(path: Path) -> None:
    assert run(load_as("sglang::scheduler_TP1"), path).stdout == "loaded\n"


@pytest.mark.parametrize("module", ["sgl_kernel", "sgl_kernel.flash_attn", "sgl_kernel.mamba"])
def test_kernels_import_and_refuse(tmp_path: Path, module: str) -> None:
    done = run(f"from {module} import anything; anything()", tmp_path)
    assert "sgl_kernel.anything was called" in done.stderr
