"""Command prefixes for ``--via`` that make this machine look like another one. Those of namespaces need root."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="only root may make namespaces",
)

SOURCE = Path(__file__).resolve().parents[2] / "src"


def in_a_pid_namespace(program: str) -> Any:
    """What a Python program prints as JSON, that is alone in its pid namespace with launchmon's sources. For root."""
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def script(text: str) -> str:
    """A prefix: ``text`` is a script for sh in which ``"$@"`` is the command that follows."""
    return shlex.join(["sh", "-c", text, "prefix"])


def hiding_pythons(then: str) -> list[str]:
    """The words of a command in a mount namespace without the Pythons that a script would find on this machine;
    ``then``: what sh does there."""
    folders = ("/usr/bin", "/usr/local/bin", "/opt/venv/bin", "/opt/conda/bin")
    pythons = [str(path) for folder in folders for path in Path(folder).glob("python3*") if path.exists()]
    hide = "".join(f"mount --bind /bin/false {shlex.quote(path)}; " for path in pythons)
    return ["unshare", "-m", "sh", "-c", hide + then, "prefix"]


def old_python(folder: Path) -> None:
    """A ``python3`` in ``folder`` that answers as one of 2018 would."""
    folder.mkdir()
    program = folder / "python3"
    program.write_text('#!/bin/sh\ncase $1 in -V) echo "Python 3.6.8";; *) exit 1;; esac\n')
    program.chmod(0o755)


def bare_python(folder: Path) -> None:
    """A ``python3`` in ``folder`` with the standard library and nothing else."""
    folder.mkdir()
    base = os.path.realpath(sys.executable)
    program = folder / "python3"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(base)} -S -I "$@"\n')
    program.chmod(0o755)


def server_environment(folder: Path) -> Path:
    """The Python of a virtual environment that can run the demo and has no py-spy beside it."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    packages.joinpath("demo.pth").write_text("\n".join([*ours, str(SOURCE)]))
    return folder / "bin" / "python"
