from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.color import Color

from launchmon.tui import theme

FILES = sorted(theme.directory().glob("*.toml"))
GOOD: dict[str, Any] = {"colors": dict.fromkeys(theme.REQUIRED, "#808080")}


def test_the_themes_that_are_named_are_there() -> None:
    assert {theme.DARK, theme.LIGHT, theme.ANSI} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_is_a_theme(path: Path) -> None:
    assert theme.load(path).name == path.stem


def contrast(one: Color, other: Color) -> float:
    """WCAG 2's contrast ratio."""

    def luminance(color: Color) -> float:
        parts = [value / 255 for value in color.rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", [theme.DARK, theme.LIGHT])
def test_every_text_can_be_read_on_every_ground(name: str) -> None:
    loaded = theme.load(theme.directory() / f"{name}.toml")
    texts = {"foreground": loaded.foreground} | {
        key: value for key, value in loaded.variables.items() if key.startswith("text-")
    }
    assert {"text-muted", "text-error", "text-warning", "text-success", "text-primary", "text-accent"} < set(texts)
    for key, value in texts.items():
        for ground in (loaded.background, loaded.surface, loaded.panel):
            ratio = contrast(Color.parse(value or ""), Color.parse(ground or ""))
            assert ratio >= 4.5, f"{key} on {ground}: {ratio:.2f}"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colours": {}}, "colours is not known"),
        ({"dark": "yes"}, "dark is true or false"),
        ({"colors": {"primary": "#808080"}}, "lacks"),
        ({"colors": {**GOOD["colors"], "primary": "bluish"}}, "'bluish' is not a color"),
        ({"colors": {**GOOD["colors"], "primary": 7}}, "a color is a text"),
        ({"colors": {**GOOD["colors"], "primry": "#fff"}}, "primry is not known"),
        ({"colors": {**GOOD["colors"], "primary": "ansi_red"}}, "no other has any"),
        ({"ansi": True}, "ansi_ colors only"),
        ({"colors": []}, "are tables"),
        ({"variables": {"Bad Name": "x"}}, "Bad Name"),
    ],
)
def test_a_bad_theme_is_refused_with_its_key(change: dict[str, Any], says: str) -> None:
    with pytest.raises(theme.ThemeError, match=r"mine\.toml") as error:
        theme.parse({**GOOD, **change}, "mine.toml", "mine")
    assert says in str(error.value)


def test_own_themes_are_read_and_bad_ones_left_out(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text("[colors]\n" + "\n".join(f'{key} = "#808080"' for key in theme.REQUIRED))
    (tmp_path / "bad.toml").write_text("not toml at all")
    names = [loaded.name for loaded in theme.load_all([tmp_path])]
    assert "good" in names
    assert "bad" not in names


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"TERM": "xterm-256color"}, theme.DARK),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, theme.DARK),
        ({"TERM": "tmux-256color", "COLORFGBG": "0;15"}, theme.LIGHT),
        ({"TERM": "tmux-256color", "COLORFGBG": "15;0"}, theme.DARK),
        ({"TERM": "linux"}, theme.ANSI),
        ({}, theme.ANSI),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, theme.ANSI),
    ],
)
def test_the_theme_fits_the_terminal(environment: dict[str, str], name: str) -> None:
    assert theme.fitting(environment) == name
