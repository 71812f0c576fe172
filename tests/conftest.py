"""Keeps all tests away from the runs, settings and terminal of the person who starts them."""

from __future__ import annotations

import compileall
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import parsed_css

TESTS = Path(__file__).resolve().parent

OWN = {"LAUNCHMON_TEST_CACHE", "LAUNCHMON_TEST_EXPLORE", "LAUNCHMON_REQUIRE_REAL"}
"""Variables that tests themselves take."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile launchmon before the workers start: hundreds of clients and demo ranks do so here, and where Python is
    told to keep no bytecode, each would compile all of it. The environment stays as it is."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(TESTS.parent / "src", quiet=2)


@pytest.fixture(scope="session", autouse=True)
def _private_environment() -> Iterator[None]:
    """State, settings, cache and sockets, those of tmux too, in a directory of this session; a short path, since a
    socket's is limited."""
    home = Path(tempfile.mkdtemp(prefix="lm-"))
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("STATE", "CONFIG", "CACHE"):
            patch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
            (home / kind.lower()).mkdir(mode=0o700)
        (home / "run").mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
        patch.setenv("TMUX_TMPDIR", str(home / "run"))
        for variable in tuple(os.environ):
            launchmons = variable.startswith("LAUNCHMON_") and variable not in OWN
            if launchmons or variable in ("NO_COLOR", "TMUX", "TMUX_PANE", "COLUMNS", "LINES"):
                patch.delenv(variable)
        yield
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _fast_screens() -> Iterator[None]:
    """A third of a TUI test's time went into parsing the same CSS and looking for cycles among its rules."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    with pytest.MonkeyPatch.context() as patch:
        parsed_css.share(patch)
        yield
    gc.set_threshold(*before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow files first, so that no worker sits idle at the end: each file is one worker's."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """0: with real processes. 1: of the whole project, or of the screen. 2: the others, of a second or two a file."""
    parts = item.path.relative_to(TESTS).parts
    if parts[0] in ("scenarios", "faults"):
        return 0
    return 1 if len(parts) == 1 or "tui" in parts else 2
