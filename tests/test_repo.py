"""The repository as a whole: its commands, its version, what it ships, and what must not be in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import launchmon
import launchmon_agent

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("git cannot say which files are the project's")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [path for name in done.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


# ----------------------------------------------------------------------------------------------------------- commands


def readme_commands() -> list[str]:
    """The indented lines of "Try it"."""
    section = README.partition("\n## Try it\n")[2].partition("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


def test_readme_has_one_line_for_the_demo_and_one_for_the_tests() -> None:
    demo, tests = readme_commands()
    assert demo == "sh .ci/env && .venv/bin/launchmon demo"
    assert tests == "sh .ci/env dev && .venv/bin/python -m pytest"


def test_ci_runs_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert f'    {readme_commands()[1]} "$@"\n' in script
    assert 'step "tests" tests' in script
    assert 'step "real SGLang, tests" tests' in script


@pytest.mark.parametrize(("shell", "script"), [("sh", ".ci/env"), ("bash", ".ci/run")])
def test_scripts_are_executable_and_parse(shell: str, script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111
    assert subprocess.run([shell, "-n", script], cwd=ROOT, capture_output=True).returncode == 0


def test_env_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(["sh", ".ci/env", "everything"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "usage: sh .ci/env [dev]\n")


def test_env_explains_a_missing_python(tmp_path: Path) -> None:
    """In a copy without .venv: here it would find the environment up to date and never ask for an interpreter."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "env").write_bytes((ROOT / ".ci" / "env").read_bytes())
    (tmp_path / "pyproject.toml").write_text("")
    env = {"PATH": "/usr/bin:/bin", "PYTHON": "/nonexistent/python3"}
    done = subprocess.run(["sh", ".ci/env"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    problem, advice = done.stderr.splitlines()
    assert problem == "launchmon: needs Python 3.10 or newer; found no working /nonexistent/python3"
    assert advice.startswith("launchmon: try:  PYTHON=")


# ------------------------------------------------------------------------------------------------------------ content


def test_licence_and_changelog_are_there() -> None:
    assert "Apache License\n                           Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in changelog or f"## [{launchmon.__version__}]" in changelog


def test_one_version() -> None:
    assert launchmon.__version__ == launchmon_agent.__version__ == PYPROJECT["project"]["version"]


def test_readme_and_docs_link_to_files_that_exist() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


SPEAKS_OF_A_MACHINE = re.compile(
    "|".join(
        (
            "/work" + r"/\w",
            "/root" + r"/(rig|\.pyenv)",
            "py" + r"pi\.org",
            "python" + "hosted",
            "index" + "-url",
            r"/simple" + "/",
        )
    )
)
"""A path of the machine that something was written on, or a package host: neither means anything to another reader.
In pieces, so that this file does not match."""


def test_no_file_speaks_of_a_machine() -> None:
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in SPEAKS_OF_A_MACHINE.finditer(text)]
    assert found == []


PERSONAL_HOME = re.compile("/(?:root|home/[a-z][a-z0-9_-]*)" + "/")


def test_no_source_or_document_names_a_home() -> None:
    """Data of tests may: real logs name the homes of the people that they come from."""
    found = []
    for path in tracked_files():
        if (
            path.suffix in (".py", ".md", ".toml")
            and path != Path(__file__)
            and "tests" not in path.relative_to(ROOT).parts
        ):
            found += [f"{path.relative_to(ROOT)}: {match}" for match in PERSONAL_HOME.findall(path.read_text())]
    assert found == []


# -------------------------------------------------------------------------------------------------------------- wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel built from this tree, by the build backend itself: no network."""
    out = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(zipfile.ZipFile(out / done.stdout.split()[-1]).namelist())


@pytest.mark.parametrize("package", ["launchmon", "launchmon_agent"])
def test_wheel_holds_every_file_of_the_packages(package: str, wheel: set[str]) -> None:
    files = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / package).rglob("*") if path.is_file()
    }
    missing = {name for name in files if "/__pycache__/" not in name} - wheel
    assert missing == set()


def test_wheel_holds_every_theme(wheel: set[str]) -> None:
    themes = {f"launchmon/themes/{path.name}" for path in (ROOT / "themes").glob("*.toml")}
    assert themes and themes <= wheel
