"""A py-spy for a target's kind of machine: the installed one where it fits, else one that pip downloads and is kept.

Its wheels hold one program and nothing else, for Linux without need of any library of the target.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from launchmon_agent.errors import Refused
from launchmon_agent.stacks import cache

PACKAGE = "py-spy"
DOWNLOAD_S = 120.0

_ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "armv7l": 40, "ppc64le": 21}
"""``e_machine`` of elf(5) by the machine's name of uname(2)."""


@dataclass(frozen=True)
class Program:
    version: str
    machine: str
    data: bytes

    @property
    def name(self) -> str:
        """What it is kept under, here and on a target (:mod:`launchmon_agent.stacks.cache`)."""
        return f"py-spy-{self.version}-{self.machine}-{hashlib.sha256(self.data).hexdigest()}"


def program_for(machine: str, environ: Mapping[str, str] | None = None) -> Program:
    """``machine`` as uname(2) says it. Blocking, up to :data:`DOWNLOAD_S`. Raises :class:`Refused`."""
    if machine not in _ELF_MACHINES:
        by_hook = "launchmon relaunch    # what launchmon starts has a hook that tells stacks without py-spy"
        raise Refused(f"there is no py-spy for {machine}", "its makers publish none", by_hook)
    version = metadata.version(PACKAGE)
    data = _installed(machine)
    if data is not None:
        return Program(version, machine, data)
    folder = Path(cache.places(environ)[0])
    for path in cache.kept([str(folder)]):
        if Path(path).name.startswith(f"py-spy-{version}-{machine}-"):
            return Program(version, machine, Path(path).read_bytes())
    program = Program(version, machine, _downloaded(version, machine))
    with contextlib.suppress(OSError):  # it is downloaded again then
        _remember(folder, program)
    return program


def is_for(data: bytes, machine: str) -> bool:
    """Whether this is a Linux program for that kind of machine."""
    return data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == _ELF_MACHINES.get(machine)


def _installed(machine: str) -> bytes | None:
    for file in metadata.files(PACKAGE) or ():
        if file.name == PACKAGE:
            with contextlib.suppress(OSError):
                data = Path(str(file.locate())).read_bytes()
                return data if is_for(data, machine) else None
    return None


def _downloaded(version: str, machine: str) -> bytes:
    """Raises :class:`Refused`."""
    with tempfile.TemporaryDirectory(prefix="launchmon-") as folder:
        command = [sys.executable, "-m", "pip", "download", f"{PACKAGE}=={version}", "--no-deps", "--quiet"]
        command += ["--only-binary=:all:", "--platform", f"manylinux2014_{machine}", "--dest", folder]
        command += ["--disable-pip-version-check", "--no-input"]
        by_hand = f"pip install {PACKAGE}    # on the target"
        what = f"no py-spy for {machine} could be had, so no stacks can be read by it there"
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DOWNLOAD_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(what, f"pip did not finish: {error}", by_hand) from None
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Refused(what, said[-1] if said else "pip found none", by_hand)
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                (name,) = (name for name in wheel.namelist() if name.endswith(f".data/scripts/{PACKAGE}"))
                data = wheel.read(name)
        except (ValueError, zipfile.BadZipFile) as error:
            raise Refused(what, f"{wheels[0].name} holds no py-spy: {error}", by_hand) from None
    if not is_for(data, machine):
        raise Refused(what, f"{wheels[0].name} is for another kind of machine", by_hand)
    return data


def _remember(folder: Path, program: Program) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f".{program.name}.{os.getpid()}"
    part.write_bytes(program.data)
    part.replace(folder / program.name)
