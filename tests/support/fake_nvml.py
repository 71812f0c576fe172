"""The fake NVML of ``tests/fake_nvml/fake_nvml.c``: compiled once, scripted by a file, seen by the real nvidia-ml-py.

In a child process: ``env=FakeNvml(tmp_path).environment()``. In this process: :func:`load` once, then a
:class:`FakeNvml` per test with FAKE_NVML_SCRIPT set to its path.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "fake_nvml" / "fake_nvml.c"
SCRIPT_VARIABLE = "FAKE_NVML_SCRIPT"


class NoCompiler(RuntimeError):
    """There is no C compiler, so there is no fake NVML: skip."""


@functools.cache
def library() -> Path:
    """Path of the compiled ``libnvidia-ml.so.1``, alone in its directory. Raises :class:`NoCompiler`."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NoCompiler("the fake NVML needs gcc or cc")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    target = Path(tempfile.gettempdir()) / f"launchmon-fake-nvml-{os.getuid()}-{digest}" / "libnvidia-ml.so.1"
    if not target.exists():
        target.parent.mkdir(mode=0o700, exist_ok=True)
        made = target.with_name(f"{os.getpid()}.so")
        command = [compiler, "-shared", "-fPIC", "-fvisibility=hidden", "-O1", "-Wall", "-Wextra", "-Werror"]
        subprocess.run(
            [*command, "-Wl,-soname,libnvidia-ml.so.1", "-o", str(made), str(SOURCE), "-lpthread"], check=True
        )
        made.rename(target)
    return target


@functools.cache
def load() -> ctypes.CDLL:
    """Make the fake this process's libnvidia-ml.so.1: a loaded library is found by its soname before any search."""
    return ctypes.CDLL(str(library()))


class FakeNvml:
    """A script for the fake. Settings are replaced by :meth:`script`, at any time, for whoever has the fake loaded."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "nvml-script"
        self._versions = 0
        self.script("")

    def script(self, *lines: str) -> None:
        """Replace all settings; see fake_nvml.c for the lines."""
        fresh = self.path.with_name(f"{self.path.name}-{self._versions}")
        self._versions += 1
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(self.path)

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a child process that is to see the fake."""
        base = os.environ if base is None else base
        path = f"{library().parent}:{base['LD_LIBRARY_PATH']}" if base.get("LD_LIBRARY_PATH") else str(library().parent)
        return {**base, "LD_LIBRARY_PATH": path, SCRIPT_VARIABLE: str(self.path)}
