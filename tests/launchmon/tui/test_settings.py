"""What a person has set, as the screen follows it: keys, read-only, themes, and mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launchmon.actions import ACTIONS
from launchmon.config import Config, Effective
from launchmon.tui import theme
from launchmon.tui.app import LaunchmonApp
from launchmon.tui.bindings import method
from launchmon.tui.screens.help import HelpScreen
from launchmon.tui.screens.kill import KillScreen
from launchmon.tui.screens.run import RunScreen
from launchmon.tui.screens.stacks import StacksScreen
from tests.support import fake_session as fake
from tests.support.tui_rig import PLAIN, running

MINE = replace(
    PLAIN, keys={"kill": ("K",), "stacks": ("k", "f7"), "help": ("ctrl+g",), "relaunch": ("R",), "raw": ("f9",)}
)


async def test_keys_of_a_person_s_own_take_the_place_of_the_usual_ones() -> None:
    async with running(fake.seed(), config=MINE) as rig:
        await rig.press("d")
        assert isinstance(rig.app.screen, RunScreen)
        await rig.press("k")
        assert isinstance(rig.app.screen, StacksScreen)
        await rig.press("escape", "K")
        assert isinstance(rig.app.screen, KillScreen)


async def test_footer_and_help_name_the_keys_that_work() -> None:
    async with running(fake.kept(), config=MINE) as rig:
        footer = rig.text("footer")
        assert "k stacks (kept 3)" in footer
        assert "K kill" in footer
        assert "^G help" in footer
        assert "k: 3 dumps kept" in rig.screen_text()
        assert "R relaunch" in rig.text("verdict")
        await rig.press("ctrl+g")
        assert isinstance(rig.app.screen, HelpScreen)
        lines = rig.text("help-text").splitlines()
        assert any(line.startswith("k F7 ") and "stacks" in line for line in lines)


async def test_the_bottom_line_can_still_be_clicked() -> None:
    async with running(fake.seed(), config=MINE) as rig:
        at = rig.text("footer").index("K kill")
        await rig.pilot.click("#footer", offset=(at + 2, 0))
        await rig.settle()
        assert isinstance(rig.app.screen, KillScreen)


CHANGING = [action for action in ACTIONS if action.changes and action.scope == "run"]


@pytest.mark.parametrize("action", CHANGING, ids=lambda action: action.id)
async def test_nothing_changes_through_a_read_only_session(action: object) -> None:
    assert action in CHANGING
    session = fake.seed()
    session.read_only = True
    async with running(session) as rig:
        for name in (method(action), f"screen.{method(action)}"):  # type: ignore[arg-type]
            await rig.run.app.run_action(name, rig.run)
            await rig.settle()
            assert isinstance(rig.app.screen, RunScreen)
        told = " ".join(str(notice.message) for notice in rig.app._notifications)
        assert "read-only" in told


@pytest.mark.parametrize(
    ("config", "environment", "worn"),
    [
        (Config(), {"TERM": "xterm-256color"}, theme.DARK),
        (Config(), {"TERM": "xterm-256color", "NO_COLOR": "1"}, theme.ANSI),
        (Config(theme="launchmon-okabe-ito"), {"TERM": "xterm"}, "launchmon-okabe-ito"),
        (Config(theme="nord"), {}, "nord"),
        (Config(theme="launchmon-drak"), {"TERM": "xterm-256color"}, theme.DARK),
    ],
)
def test_the_theme_that_was_asked_for_is_worn_or_one_that_fits(
    config: Config, environment: dict[str, str], worn: str, tmp_path: Path
) -> None:
    assert app(config, tmp_path, environment).theme == worn


def test_motion_is_for_those_who_ask_for_it_and_sit_in_front_of_it(tmp_path: Path) -> None:
    local = Config(animation="local")
    assert app(Config(), tmp_path).animation_level == "none"
    assert app(local, tmp_path).animation_level == "basic"
    assert app(local, tmp_path, {"SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}).animation_level == "none"


async def test_mistakes_are_told_on_the_screen_and_keep_nothing_from_showing(tmp_path: Path) -> None:
    settings = Effective(Config(theme="launchmon-drak"), problems=("config.toml:3: there is no setting 'them'",))
    one = app(settings.config, tmp_path, problems=settings.problems)
    async with one.run_test() as pilot:
        await pilot.pause()
        told = [str(notice.message) for notice in one._notifications]
    assert any("config.toml:3" in text for text in told)
    assert any("do you mean launchmon-dark?" in text for text in told)


async def test_a_theme_that_is_worn_changes_when_its_file_is_saved(tmp_path: Path) -> None:
    themes = tmp_path / "launchmon/themes"
    themes.mkdir(parents=True)
    (themes / "mine.toml").write_text('[colors]\nprimary = "#4060ff"\n')
    one = app(Config(theme="mine"), tmp_path)
    async with one.run_test() as pilot:
        await pilot.pause()
        before = one.get_css_variables()["primary"]
        (themes / "mine.toml").write_text('[colors]\nprimary = "#ff8040"\n# saved\n')
        one._look_at_themes()
        await pilot.pause()
        assert one.get_css_variables()["primary"] != before
        saved = one.get_css_variables()["primary"]
        (themes / "mine.toml").write_text("not = a = theme")
        one._look_at_themes()
        await pilot.pause()
        assert one.get_css_variables()["primary"] == saved
        assert any("mine.toml" in str(notice.message) for notice in one._notifications)


def app(
    config: Config, home: Path, environment: dict[str, str] | None = None, problems: tuple[str, ...] = ()
) -> LaunchmonApp:
    async def pick() -> list[object]:
        return []

    return LaunchmonApp(
        None,
        pick=pick,  # type: ignore[arg-type]
        attach=lambda _: None,  # type: ignore[arg-type,return-value]
        settings=Effective(config, problems=problems),
        environment={"XDG_CONFIG_HOME": str(home), **(environment or {})},
    )


async def test_help_explains_what_has_the_focus() -> None:
    async with running(fake.kept()) as rig:
        await rig.press("question_mark")
        assert "the log panel (focused)" in rig.text("help-text")
        await rig.press("escape")
        rig.run.set_focus(rig.run.query_one("#gpus"))
        await rig.press("question_mark")
        assert "the gpus panel (focused)" in rig.text("help-text")
        await rig.press("escape", "d", "question_mark")
        assert "the list panel (focused)" in rig.text("help-text")
        await rig.press("escape", "tab", "question_mark")
        assert "the frames panel (focused)" in rig.text("help-text")
