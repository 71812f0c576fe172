#!/usr/bin/env python3
"""Installs a genuine, unmodified SGLang that starts on a machine without a GPU, and two tiny models for it to serve.

    python tests/real/setup.py          about 75 s and 2.7 GB the first time, nothing when it is there
    python tests/real/setup.py --where  prints the directory and whether it is ready, installs nothing

It goes into ``$LAUNCHMON_TEST_CACHE`` or ``~/.cache/launchmon-tests``, not into the checkout, so that checkouts share
it. SGLang's own code stays as released; ``shim/`` says what stands in for its CUDA-only parts. Standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
SGLANG = "0.5.23"
PYTHON = "3.11"  # the one version on which these pins were tried


class SetupError(Exception):
    """The installation cannot be made; the text says why and what to do."""


def directory() -> Path:
    cache = os.environ.get("LAUNCHMON_TEST_CACHE") or Path.home() / ".cache" / "launchmon-tests"
    return Path(cache) / f"sglang-{SGLANG}"


def fingerprint() -> str:
    """Of everything that decides what is installed: another one means that the installation is of an older checkout."""
    digest = hashlib.sha256()
    for name in ("requirements.txt", "tiny_models.py"):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def is_ready(where: Path) -> bool:
    try:
        return (where / "ready").read_text() == fingerprint()
    except OSError:
        return False


def groups() -> dict[str, list[str]]:
    """The requirements by group, in the order of the file."""
    out: dict[str, list[str]] = {}
    for line in (HERE / "requirements.txt").read_text().splitlines():
        if line.startswith("["):
            group = out.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            group.append(line)
    return out


def find_python() -> str:
    """An interpreter of the right version. A name on PATH may be a shim that fails, so each one is asked."""
    for candidate in (f"python{PYTHON}", "python3", sys.executable):
        try:
            answer = subprocess.run(
                [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"],
                capture_output=True,
                text=True,
            )
        except OSError:
            continue
        version, _, path = answer.stdout.strip().partition(" ")
        if answer.returncode == 0 and version == PYTHON:
            return path
    raise SetupError(f"the real SGLang needs Python {PYTHON}, and no python{PYTHON} on PATH works")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one installation at a time; whoever comes second waits and finds it made."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another installation is under way; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run([str(part) for part in command], env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SetupError(f"exit status {done.returncode} from: {' '.join(str(part) for part in command)}")


def install(where: Path) -> None:
    """Makes the installation from nothing. ``ready`` comes last, so one that was cut short is never taken for whole."""
    if where.exists():
        shutil.rmtree(where)
    where.mkdir(parents=True)
    run(find_python(), "-m", "venv", where / "venv")
    python = where / "venv" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input", "-qq", "install")
    wanted = groups()
    run(*pip, *wanted["torch"])
    run(*pip, *wanted["packages"])
    run(*pip, "--no-deps", *wanted["without dependencies"])
    run(python, HERE / "tiny_models.py", where / "models", env={"PYTHONPATH": str(HERE / "shim")})
    (where / "ready").write_text(fingerprint())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--where", action="store_true", help="print the directory and its state, install nothing")
    where = directory()
    if parser.parse_args().where:
        print(where, "ready" if is_ready(where) else "not installed")
        return 0
    if is_ready(where):
        print(f"SGLang {SGLANG} is in {where}")
        return 0
    where.parent.mkdir(parents=True, exist_ok=True)
    with locked(where.parent / f"{where.name}.lock"):
        if not is_ready(where):
            begin = time.monotonic()
            print(f"installing SGLang {SGLANG} into {where} (2.7 GB)", flush=True)
            try:
                install(where)
            except (SetupError, OSError) as error:
                print(f"SGLang was not installed: {error}", file=sys.stderr)
                return 1
            print(f"installed in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
