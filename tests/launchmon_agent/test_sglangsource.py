"""The flags of an installed SGLang, found through a real process that would import it. Nothing of it is run."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchmon_agent.events import Run
from launchmon_agent.sglangsource import installed_flags, packages
from tests.support.flag_sources import CALLS, STRUCTS

ARGV = (sys.executable, "-m", "sglang.launch_server", "--model-path", "m", "--tp-sise", "8")


def install(folder: Path, sources: dict[str, str]) -> Path:
    """A package ``sglang`` below this folder, which nobody may import."""
    for path, text in sources.items():
        file = folder / "sglang" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "sglang" / "__init__.py").write_text("raise SystemExit('nobody may import this')\n")
    return folder


@contextmanager
def process(**environ: str) -> Iterator[int]:
    program = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-S", "-c", program], env=environ, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()  # before its exec is done it has no environment
            yield server.pid
        finally:
            server.kill()


def run(pid: int, interpreter: str | None = None) -> Run:
    return Run(0.0, id="x", argv=ARGV, pid=pid, engine_version="0.5.8", interpreter=interpreter)


@pytest.mark.parametrize("sources", [CALLS, STRUCTS], ids=["calls", "structs"])
def test_a_misspelt_flag_is_held_against_the_installed_ones(tmp_path: Path, sources: dict[str, str]) -> None:
    with process(PYTHONPATH=str(install(tmp_path, sources))) as pid:
        found = installed_flags(run(pid), 7.0)
    assert found is not None
    assert (found.at, found.version) == (7.0, "0.5.8")
    assert found.unknown == {"--tp-sise": ("--tp-size",)}
    assert "--disable-custom-all-reduce" in found.lacks and "--trust-remote-code" in found.lacks


def test_an_editable_installation_leads_to_its_tree(tmp_path: Path) -> None:
    install(tmp_path / "tree of mine" / "python", CALLS)
    about = tmp_path / "packages" / "sglang-0.5.8.dist-info"
    about.mkdir(parents=True)
    url = (tmp_path / "tree of mine").as_uri()
    (about / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": True}}))
    with process(PYTHONPATH=str(tmp_path / "packages")) as pid:
        assert next(packages(pid, None)) == str(tmp_path / "tree of mine" / "python" / "sglang")


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"url": 7}', '{"url": "https://example.org/x"}'])
def test_a_damaged_note_of_an_installation_leads_nowhere(tmp_path: Path, text: str) -> None:
    about = tmp_path / "sglang-0.5.8.dist-info"
    about.mkdir()
    (about / "direct_url.json").write_text(text)
    with process(PYTHONPATH=str(tmp_path)) as pid:
        assert not any(str(tmp_path) in folder for folder in packages(pid, None))


def test_a_server_that_has_just_ended_is_known_by_its_interpreter(tmp_path: Path) -> None:
    install(tmp_path / "lib" / "python3.11" / "site-packages", CALLS)
    with process() as pid:
        pass
    found = installed_flags(run(pid, interpreter=str(tmp_path / "bin" / "python")), 0.0)
    assert found is not None and "--tp-sise" in found.unknown


def test_a_source_that_is_not_understood_says_nothing(tmp_path: Path) -> None:
    install(tmp_path, {"srt/server_args.py": "flags = 'declared in a fourth way'\n"})
    with process(PYTHONPATH=str(tmp_path)) as pid:
        assert installed_flags(run(pid), 0.0) is None


def test_nothing_is_looked_for_of_a_simulated_server(tmp_path: Path) -> None:
    with process(PYTHONPATH=str(install(tmp_path, CALLS))) as pid:
        assert installed_flags(dataclasses.replace(run(pid), simulated=True), 0.0) is None
