"""Generated configurations, themes and texts from elsewhere: a mistake costs one value, and never the screen."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from launchmon import config
from launchmon.config import SETTINGS
from launchmon.config_file import line_numbers
from launchmon.format import clip, fit, one_line, wrap
from launchmon.keymap import settle
from launchmon.tui import theme
from launchmon.tui.own_themes import OwnThemes
from launchmon.tui.widgets.lines import safe
from tests.support.hostile_text import BOUNDED, TEXT

VALUES = st.sampled_from(
    [
        "true",
        "0",
        "-1",
        "1e999",
        "nan",
        "9" * 5000,
        '"auto"',
        '"\\u001b[2J"',
        "[]",
        '["gpus", 7]',
        "{a = 1}",
        "2026-01-01",
        "[" * 3000,
        "",
    ]
)
NAMES = st.one_of(st.sampled_from([*(setting.name for setting in SETTINGS), "keys", "nonsense", "keys.quit"]), TEXT)
LINES = st.one_of(
    st.tuples(NAMES, st.just(" = "), st.one_of(VALUES, TEXT)).map("".join),
    st.sampled_from(
        ["[keys]", "[colors]", "[variables]", "[[keys]]", "dark = 3", "ansi = true", 'primary = "#12"', "\x00"]
    ),
    TEXT,
)
FILE = st.lists(LINES, max_size=8).map("\n".join).map(lambda text: text.encode("utf-8", "surrogatepass"))
PLAIN = TEXT.map(lambda text: text.replace("\0", "").encode("utf-8", "replace").decode())
"""What an environment can hold."""


@given(FILE, st.dictionaries(st.sampled_from(SETTINGS), PLAIN, max_size=3))
@BOUNDED
def test_a_configuration(tmp_path_factory: Any, data: bytes, environment: dict[config.Setting, str]) -> None:
    home = tmp_path_factory.mktemp("config")
    (home / "launchmon").mkdir()
    (home / "launchmon" / "config.toml").write_bytes(data)
    variables = {setting.variable: value for setting, value in environment.items()}
    found = config.load({"XDG_CONFIG_HOME": str(home), **variables})
    for setting in SETTINGS:
        value = getattr(found.config, setting.name)
        assert type(value) is type(setting.default)
        assert config.fitted(setting, list(value) if isinstance(value, tuple) else value) == value
    for problem in found.problems:
        assert problem and problem.isprintable()


@given(
    st.dictionaries(
        TEXT, st.tuples(st.one_of(TEXT, st.integers(), st.lists(TEXT, max_size=2)), st.just("a file")), max_size=4
    )
)
@BOUNDED
def test_keys(wanted: dict[str, tuple[object, str]]) -> None:
    settle(wanted)


@given(FILE)
@BOUNDED
def test_a_theme(tmp_path_factory: Any, data: bytes) -> None:
    folder: Path = tmp_path_factory.mktemp("themes")
    (folder / "mine.toml").write_bytes(data)
    themes, problems = OwnThemes(folder).changed()
    assert len(themes) + len(problems) == 1
    with contextlib.suppress(theme.ThemeError):
        theme.load(folder / "mine.toml")
    line_numbers(data.decode("utf-8", "replace"))


@given(TEXT, st.integers(-1, 30))
@BOUNDED
def test_a_text_takes_no_more_cells_than_it_is_given(text: str, width: int) -> None:
    assert cell_len(clip(text, width)) <= max(0, width)
    assert cell_len(fit(text, width)) == max(0, width)
    assert all(cell_len(line) <= max(2, width) for line in wrap(text, width))
    assert safe(text).isprintable()
    assert "\n" not in one_line(text)
