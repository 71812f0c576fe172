"""The rules of imports that import-linter cannot see: what a module brings in at run time, and from where it works.

pyproject.toml holds the contracts between the project's own modules, and ``lint-imports`` checks them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from launchmon.connect.bundle import AS_SOURCE, PACKAGES, agent_zip
from tests.support.importing import SRC, Imported, import_each, modules

AGENT = modules("launchmon_agent")
CLIENT = modules("launchmon")
TUI = [name for name in CLIENT if name == "launchmon.tui" or name.startswith("launchmon.tui.")]
SSH = [name for name in CLIENT if name.startswith("launchmon.connect.ssh.") and name != "launchmon.connect.ssh.config"]
"""Imported when a connection is made. The home screen lists the hosts of the configuration before."""
PLAIN = [name for name in CLIENT if name not in TUI and name not in SSH]

COMMON_OF_AGENT = ("launchmon_agent.events", "launchmon_agent.model", "launchmon_agent.watch")
COMMON = (*COMMON_OF_AGENT[:2], "launchmon.session")
"""What costs most of the time to import, from the bottom up."""

AGENT_MAY_USE = {"launchmon_agent", "pynvml"}
SLOW = {"textual", "asyncssh"}
"""What a verb that only prints must not wait for."""

HOMES: dict[str, tuple[str, ...]] = {
    "textual": ("launchmon.tui",),
    "rich": ("launchmon.tui", "launchmon.format"),
    "asyncssh": ("launchmon.connect.ssh",),
    "click": ("launchmon.cli",),
    "pynvml": ("launchmon_agent.sensors",),
}
"""The parts of the program in which a package may be named."""


def source(name: str) -> str:
    file = SRC.joinpath(*name.split("."))
    return (file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text()


def named_imports(name: str) -> set[str]:
    """The absolute names that a module's source imports anywhere in it, also inside functions and for type checking."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source(name))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def top(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.parametrize("name", AGENT)
def test_agent_names_only_what_a_target_has(name: str) -> None:
    foreign = {top(imported) for imported in named_imports(name)} - AGENT_MAY_USE - sys.stdlib_module_names
    assert foreign == set()


@pytest.mark.parametrize("name", AGENT + CLIENT)
def test_packages_are_named_only_where_they_belong(name: str) -> None:
    for imported in named_imports(name):
        homes = HOMES.get(top(imported))
        if homes is not None:
            assert any(f"{name}.".startswith(f"{home}.") for home in homes), f"{imported} belongs into {homes}"


@pytest.fixture(scope="module")
def alone() -> Mapping[str, Imported]:
    textual = ("textual.app", "textual.widgets", "textual.screen", "textual.command")
    drawing = import_each(TUI, preloaded=textual, common=COMMON)
    plain = import_each(PLAIN, common=COMMON)
    return {**plain, **import_each(SSH, preloaded=("asyncssh",)), **drawing}


@pytest.mark.parametrize("name", CLIENT)
def test_client_module_imports_by_itself(name: str, alone: Mapping[str, Imported]) -> None:
    assert alone[name].error is None


@pytest.mark.parametrize("name", PLAIN)
def test_only_what_draws_or_logs_in_waits_for_slow_packages(name: str, alone: Mapping[str, Imported]) -> None:
    assert alone[name].loaded & SLOW == set()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "agent"
    path.write_bytes(agent_zip(compiled=False, deflated=True))
    return path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / "agent"
    path.write_bytes(agent_zip(compiled=True, deflated=False))
    return path


@pytest.fixture(scope="module")
def from_the_zip(compiled: Path) -> Mapping[str, Imported]:
    return import_each(AGENT, path=[compiled], only={"launchmon_agent"}, common=COMMON_OF_AGENT)


@pytest.mark.parametrize("name", AGENT)
def test_agent_imports_from_the_zip_on_a_bare_target(
    name: str, compiled: Path, from_the_zip: Mapping[str, Imported]
) -> None:
    imported = from_the_zip[name]
    assert imported.error is None
    assert imported.file is not None and imported.file.startswith(f"{compiled}/"), "not the copy in the zip"


def test_the_sources_in_the_zip_import_too(bundle: Path) -> None:
    """All in one interpreter: each by itself, as above, would compile most of them again and again."""
    code = "import sys, importlib; sys.path.insert(0, sys.argv[1]); [importlib.import_module(n) for n in sys.argv[2:]]"
    subprocess.run([sys.executable, "-I", "-c", code, str(bundle), *AGENT], capture_output=True, check=True)


def test_the_zip_holds_the_whole_agent_and_what_it_uses_where_the_target_has_none(bundle: Path, compiled: Path) -> None:
    package = SRC / "launchmon_agent"
    files = {path.relative_to(SRC).as_posix() for path in package.rglob("*") if path.is_file()}
    wanted = {name for name in files if "/__pycache__/" not in name} | {f"shipped/{name}.py" for name in PACKAGES}
    assert set(zipfile.ZipFile(bundle).namelist()) == wanted
    held = set(zipfile.ZipFile(compiled).namelist())
    assert {name.removesuffix("c") if name.endswith(".pyc") else name for name in held} == wanted
    assert {name for name in held if name.endswith(".py")} == AS_SOURCE


@pytest.mark.parametrize("name", AGENT)
def test_agent_finds_its_data_without_a_path(name: str) -> None:
    """In a zip there is no file to open: data comes through the package's loader. ``boot`` asks where the zip is."""
    assert "__file__" not in source(name) or name == "launchmon_agent.boot"


DATA = sorted(path for path in (SRC / "launchmon_agent").rglob("*.table"))


@pytest.mark.parametrize("file", DATA, ids=lambda file: file.name)
def test_data_is_the_same_from_the_zip(file: Path, bundle: Path) -> None:
    package = ".".join(file.parent.relative_to(SRC).parts)
    code = (
        "import pkgutil, sys; sys.path.insert(0, sys.argv[1]); sys.stdout.buffer.write(pkgutil.get_data(*sys.argv[2:]))"
    )
    command = [sys.executable, "-I", "-c", code, str(bundle), package, file.name]
    assert subprocess.run(command, capture_output=True, check=True).stdout == file.read_bytes()
