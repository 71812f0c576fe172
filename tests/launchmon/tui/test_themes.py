from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from textual.color import Color

from launchmon.tui import palette, theme
from launchmon.tui.own_themes import OwnThemes
from tests.support import colour_vision

FILES = sorted(theme.directory().glob("*.toml"))
GOOD: dict[str, Any] = {"colors": dict.fromkeys(theme.COLORS, "#808080")}


def test_the_themes_that_are_named_are_there() -> None:
    assert {theme.DARK, theme.LIGHT, theme.ANSI} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_is_a_theme(path: Path) -> None:
    assert theme.load(path).name == path.stem


def test_contrast_is_wcag_s() -> None:
    assert palette.contrast(Color(0, 0, 0), Color(255, 255, 255)) == pytest.approx(21)
    assert palette.contrast(Color.parse("#777777"), Color.parse("#ffffff")) == pytest.approx(4.48, abs=0.01)


AAA = 7.0
"""What a high-contrast theme owes: WCAG 2.2, level AAA."""

COLOURED = [path.stem for path in FILES if not theme.load(path).ansi]


@pytest.mark.parametrize("name", COLOURED)
def test_every_text_can_be_read_on_every_ground(name: str) -> None:
    least = AAA if "contrast" in name else palette.READABLE
    loaded = theme.load(theme.directory() / f"{name}.toml")
    texts = {"foreground": loaded.foreground} | {
        key: value for key, value in loaded.variables.items() if key.startswith("text-")
    }
    assert {"text-muted", "text-error", "text-warning", "text-success", "text-primary", "text-accent"} < set(texts)
    for key, value in texts.items():
        for ground in (loaded.background, loaded.surface, loaded.panel):
            ratio = palette.contrast(Color.parse(value or ""), Color.parse(ground or ""))
            assert ratio >= least, f"{key} on {ground}: {ratio:.2f}"


VERDICTS = ("text-success", "text-warning", "text-error", "text-primary")


@pytest.mark.parametrize("kind", colour_vision.MATRICES)
def test_verdicts_differ_for_eyes_that_lack_a_cone(kind: str) -> None:
    loaded = theme.load(theme.directory() / "launchmon-okabe-ito.toml")
    seen = {name: colour_vision.seen(Color.parse(loaded.variables[name]), kind) for name in VERDICTS}
    for one, other in combinations(VERDICTS, 2):
        assert colour_vision.distance(seen[one], seen[other]) > 15, (one, other)


@pytest.mark.parametrize("ground", ["#000000", "#202830", "#777777", "#f4f0e8", "#ffffff"])
def test_a_theme_of_two_colours_is_made_readable(ground: str) -> None:
    dark = Color.parse(ground).brightness < 0.5
    made = theme.parse({"dark": dark, "colors": {"primary": "#4060ff", "background": ground}}, "x.toml", "x")
    assert made.background == ground
    for key in [f"text-{name}" for name in palette.MEANINGS] + ["text-muted"]:
        for under in (made.background, made.surface, made.panel):
            # Nothing has 4.5 on every grey: there the farthest that there is.
            ratio = palette.contrast(Color.parse(made.variables[key]), Color.parse(under or ""))
            assert ratio >= min(palette.READABLE, 4.0 if ground == "#777777" else 4.5), (key, under)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colours": {}}, "colours is not known"),
        ({"dark": "yes"}, "dark is true or false"),
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


def test_own_themes_are_read_again_when_they_change_and_mistakes_are_said_once(tmp_path: Path) -> None:
    own = OwnThemes(tmp_path / "themes")
    assert own.changed() == ([], [])
    (tmp_path / "themes").mkdir()
    good, bad = tmp_path / "themes/good.toml", tmp_path / "themes/bad.toml"
    good.write_text('[colors]\nprimary = "#808080"\n')
    bad.write_text("not toml at all")
    themes, problems = own.changed()
    assert [(loaded.name, loaded.primary) for loaded in themes] == [("good", "#808080")]
    assert [str(bad) in problem for problem in problems] == [True]
    assert own.changed() == ([], [])
    good.write_text('[colors]\nprimary = "#60a0e0"\n# changed\n')
    bad.unlink()
    themes, problems = own.changed()
    assert [loaded.primary for loaded in themes] == ["#60a0e0"]
    assert problems == []


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
