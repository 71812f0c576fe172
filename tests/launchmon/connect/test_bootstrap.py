"""The script that finds a Python: in every shell that may be ``sh``, with and without a terminal in between."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from launchmon.connect import bootstrap
from launchmon_agent.boot import READY, TERMINAL

SHELLS = {
    "dash": ["dash"],
    "bash": ["bash", "--posix", "--norc"],
    "busybox": ["busybox", "sh"],
    "zsh": ["zsh", "--emulate", "sh"],
}
"""What ``sh`` is on Debian; on Red Hat, Arch and SUSE; on Alpine; and where somebody chose zsh."""

PYTHON = os.path.realpath(sys.executable)
TELL = b"print(sys.argv[1:], sys.version_info[:2], flush=True)\n"

shells = pytest.mark.parametrize(
    "shell",
    [
        pytest.param(words, id=name, marks=pytest.mark.skipif(shutil.which(words[0]) is None, reason=f"no {name} here"))
        for name, words in SHELLS.items()
    ],
)


def fake(folder: Path, version: str, name: str = "python3") -> None:
    """A Python that answers as an old one would."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f'#!/bin/sh\ncase $1 in -V) echo "Python {version}";; *) exit 1;; esac\n')
    program.chmod(0o755)


def python_in(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "python3").symlink_to(PYTHON)


def bootstrapped(shell: Sequence[str], path: str, home: str = "/nonexistent") -> subprocess.CompletedProcess[bytes]:
    """What came of the script; a Python that it found says how it was started."""
    return subprocess.run(
        [shutil.which(shell[0]) or "", *shell[1:]],
        input=bootstrap.script() + TELL,
        capture_output=True,
        env={"PATH": path, "HOME": home},
        timeout=60,
        check=False,
    )


def test_the_script_is_fit_for_a_terminal() -> None:
    lines = bootstrap.script().decode("ascii").splitlines()
    assert max(map(len, lines)) < 1000
    assert all(line.isprintable() for line in lines), "a tab would complete a word"
    assert lines[0] == "{" and lines[-1] == "}", "or a shell that reads on would leave some of it to the stub"
    assert not re.search(r"\{[a-z]+\}$", bootstrap.script().decode("ascii"), re.MULTILINE), "a name is not filled in"


def test_the_command_survives_any_number_of_shells() -> None:
    assert bootstrap.COMMAND.isalpha()


@shells
def test_a_python_on_path_is_started_and_nothing_of_the_script_is_left_in_its_stdin(
    shell: list[str], tmp_path: Path
) -> None:
    python_in(tmp_path / "bin")
    process = subprocess.Popen(
        [shutil.which(shell[0]) or "", *shell[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": "/nonexistent"},
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(bootstrap.script())
    process.stdin.flush()
    assert process.stdout.readline() == b"\n" and process.stdout.readline().startswith(READY + b" ")
    out, _ = process.communicate(TELL, timeout=60)
    assert out.decode().strip() == f"['found=path'] {sys.version_info[:2]}"


@shells
def test_the_same_through_a_terminal(shell: list[str], tmp_path: Path) -> None:
    """It echoes, prompts and changes line ends until the stub makes it pass bytes as they are."""
    python_in(tmp_path / "bin")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [shutil.which(shell[0]) or "", *shell[1:]],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, bootstrap.script())
    seen = b""
    while b"\n" + TERMINAL not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, b"import os;os.write(1,bytes(range(256)));os.write(1,b'end')\n")
    while not seen.endswith(b"end"):
        seen += os.read(ours, 4096)
    assert seen.endswith(bytes(range(256)) + b"end")
    os.close(ours)
    process.wait(timeout=60)


@shells
def test_a_python_that_is_too_old_is_passed_over_for_one_in_a_usual_place(shell: list[str], tmp_path: Path) -> None:
    fake(tmp_path / "old", "3.6.8")
    home = tmp_path / "my home"
    python_in(home / ".local/share/uv/python/cpython-3.12/bin")
    hidden = _without_pythons()
    done = bootstrapped([*hidden, *shell], f"{tmp_path}/old:/usr/bin:/bin", str(home))
    assert b"\n" + READY + b" " in done.stdout, done


@shells
def test_what_was_found_instead_is_reported(shell: list[str], tmp_path: Path) -> None:
    fake(tmp_path / "old", "3.6.8")
    hidden = _without_pythons()
    done = bootstrapped([*hidden, *shell], f"{tmp_path}/old:/usr/bin:/bin")
    looked = bootstrap.looked(done.stderr.decode())
    assert (f"{tmp_path}/old/python3", "3.6.8") in looked.unfit
    assert done.returncode == (bootstrap.ELSEWHERE if looked.containers else bootstrap.UNFIT_PYTHON)


def _without_pythons() -> list[str]:
    """A prefix that hides this machine's Pythons from what it runs."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can hide the Pythons of this machine")
    places = [Path("/usr/bin"), Path("/usr/local/bin"), Path("/opt/conda/bin"), Path("/opt/venv/bin")]
    names = [str(path) for place in places for path in place.glob("python3*") if path.exists()]
    script = "for f in " + " ".join(names) + '; do mount --bind /bin/false "$f"; done; exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, "hide"]
