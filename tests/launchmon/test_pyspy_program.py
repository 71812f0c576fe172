"""A py-spy for another kind of machine, from a package index that is a directory."""

from __future__ import annotations

import os
import stat
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from launchmon import pyspy_program
from launchmon.pyspy_program import is_for, program_for
from launchmon_agent.errors import Refused

VERSION = metadata.version("py-spy")
AARCH64 = b"\x7fELF\x02\x01\x01" + bytes(11) + (183).to_bytes(2, "little") + b"the rest of the program"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that pip takes packages from, instead of the network."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(pyspy_program, "_installed", lambda machine: None)
    return folder


def publish(index: Path, program: bytes, machine: str = "aarch64", file: str = "py-spy") -> None:
    info = f"py_spy-{VERSION}.dist-info"
    wheel = index / f"py_spy-{VERSION}-py2.py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: py-spy\nVersion: {VERSION}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", "")
        out.writestr(f"py_spy-{VERSION}.data/scripts/{file}", program)


def test_the_installed_one_serves_the_same_kind_of_machine() -> None:
    machine = os.uname().machine
    program = program_for(machine)
    assert program.version == VERSION and program.data[:4] == b"\x7fELF" and is_for(program.data, machine)
    assert program.name.startswith(f"py-spy-{VERSION}-{machine}-")


def test_another_kind_is_downloaded_once(index: Path, tmp_path: Path) -> None:
    publish(index, AARCH64)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = program_for("aarch64", environ)
    assert (program.version, program.machine, program.data) == (VERSION, "aarch64", AARCH64)
    (kept,) = (tmp_path / "cache" / "launchmon").iterdir()
    assert kept.name == program.name and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    for wheel in index.iterdir():
        wheel.unlink()
    assert program_for("aarch64", environ) == program


def test_a_kept_one_that_was_damaged_is_downloaded_again(index: Path, tmp_path: Path) -> None:
    publish(index, AARCH64)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    (tmp_path / "cache" / "launchmon" / program_for("aarch64", environ).name).write_bytes(b"cut")
    assert program_for("aarch64", environ).data == AARCH64


@pytest.mark.parametrize(
    "program, file, why",
    [
        (None, "", "No matching distribution"),
        (AARCH64, "other", "holds no py-spy"),
        (b"#!/bin/sh", "py-spy", "another kind"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(
    index: Path, tmp_path: Path, program: bytes | None, file: str, why: str
) -> None:
    if program is not None:
        publish(index, program, file=file)
    with pytest.raises(Refused) as refused:
        program_for("aarch64", {"XDG_CACHE_HOME": str(tmp_path)})
    assert why in refused.value.cause and "aarch64" in refused.value.what and "pip install" in refused.value.try_


def test_a_machine_that_py_spy_is_not_made_for() -> None:
    with pytest.raises(Refused, match="riscv64") as refused:
        program_for("riscv64")
    assert refused.value.try_.startswith("launchmon relaunch ")
