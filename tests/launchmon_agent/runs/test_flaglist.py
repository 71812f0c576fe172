"""The flag list of an installation: found through an interpreter, read from its files, or asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from launchmon_agent.runs import flaglist
from launchmon_agent.runs.flaglist import flag_list, read_sources
from launchmon_agent.sglang.flags import source
from tests.support.flag_sources import CALLS, STRUCTS

ARGV = (sys.executable, "-m", "sglang.launch_server", "--model-path", "m")


def install(folder: Path, sources: dict[str, str], encoding: str = "utf-8") -> dict[str, str]:
    """A package ``sglang`` with these files; the environment that finds it."""
    for path, text in sources.items():
        file = folder / "sglang" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding=encoding)
    (folder / "sglang" / "__init__.py").write_text("raise SystemExit('nobody may import this')\n")
    about = folder / "sglang-0.5.8.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.8\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("sources", [CALLS, STRUCTS], ids=["calls", "structs"])
def test_an_installation_is_read_without_importing_it(tmp_path: Path, sources: dict[str, str], encoding: str) -> None:
    environ = install(tmp_path, sources, encoding)
    flags = flag_list(ARGV, sys.executable, str(tmp_path), environ)
    assert (flags.source, flags.version, flags.complete) == ("source", "0.5.8", True)
    assert flags.full_name("--tp") == "--tp-size"


def test_all_files_that_declare_flags_are_read(tmp_path: Path) -> None:
    install(tmp_path, STRUCTS)
    assert set(read_sources(str(tmp_path / "sglang"))) == set(STRUCTS)


HELP = "print('options:')\n" + f"for n in range({source.FEWEST}): print(f'  --flag-{{n}} N  help')\n"


def test_a_source_that_is_not_understood_makes_the_program_be_asked(tmp_path: Path) -> None:
    environ = install(tmp_path, {source.MAIN: "flags = 'declared in a fourth way'\n", "launch_server.py": HELP})
    (tmp_path / "sglang" / "__init__.py").write_text("")
    flags = flag_list(ARGV, sys.executable, str(tmp_path), environ)
    assert (flags.source, flags.version, len(flags.flags)) == ("help", "0.5.8", source.FEWEST)


@pytest.mark.parametrize("interpreter", [None, "/nowhere/python", sys.executable])
def test_without_an_installation_it_is_what_the_tables_know(tmp_path: Path, interpreter: str | None) -> None:
    flags = flag_list(ARGV, interpreter, str(tmp_path), {})
    assert (flags.source, flags.complete) == ("table", False)
    assert flags.has("--disable-cuda-graph") and flags.has("--tp-size") is None


def test_nothing_is_asked_of_a_simulated_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flaglist, "_run", lambda *_: pytest.fail("a program was started"))
    argv = (sys.executable, "-m", "launchmon.demo.launch_server")
    assert flag_list(argv, sys.executable, str(tmp_path), {}).source == "table"
