"""What is set where, what wins, and what is said of mistakes: a bad configuration never keeps a run from showing."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchmon import config
from launchmon.config import SETTINGS, Config, Setting
from launchmon.config_file import line_numbers


def load(tmp_path: Path, text: str = "", environment: dict[str, str] | None = None, **flags: str) -> config.Effective:
    folder = tmp_path / "launchmon"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)
    return config.load({"XDG_CONFIG_HOME": str(tmp_path), **(environment or {})}, flags)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_each_setting_is_complete_and_its_default_fits(setting: Setting) -> None:
    assert setting.row.help.endswith(".")
    default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
    assert config.fitted(setting, default) == setting.default
    assert setting.kind


def test_without_a_file_all_is_default(tmp_path: Path) -> None:
    assert config.load({"HOME": str(tmp_path)}) == config.Effective()


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    text = 'theme = "file"\nbell = false\nhot_c = 80\nalerts = ["ready"]\n'
    found = load(tmp_path, text, {"LAUNCHMON_THEME": "variable", "LAUNCHMON_BELL": "yes"}, theme="flag")
    assert (found.config.theme, found.config.bell, found.config.hot_c) == ("flag", True, 80.0)
    assert found.config.alerts == ("ready",)
    file = config.path({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found.origins == {
        "theme": "--theme",
        "bell": "$LAUNCHMON_BELL",
        "hot_c": f"{file}:3",
        "alerts": f"{file}:4",
    }
    assert found.problems == ()


def test_what_does_not_fit_gives_way_to_what_is_less_strong(tmp_path: Path) -> None:
    found = load(tmp_path, "hot_c = 80", {"LAUNCHMON_HOT_C": "hot"}, hot_c="9000")
    assert found.config.hot_c == 80
    assert [problem.split(": ")[0] for problem in found.problems] == ["-c", "$LAUNCHMON_HOT_C"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nthem = 'x'", ":2: there is no setting 'them'; do you mean theme?"),
        ("[keys]\nkil = 'K'", ":2: keys: there is no action 'kil'; do you mean kill?"),
        ("[keys]\nkill = []", ":2: keys: kill: keys are a text or a list of texts, one at least"),
        ("[keys]\nkill = 'hyper+q'", ":2: keys: kill: 'hyper+q' is not a key"),
        ("[keys]\nfilter-rank = 'x'", ":2: keys: filter-rank: it has the digits"),
        ("[keys]\nkill = 'd'", ":2: keys: kill: d is the key of stacks on the same screen"),
        ("keys = 7", ":1: keys is a table"),
        ("# a comment\nbell = 'loud'", ":2: bell: 'loud' is not true or false"),
        ("glyphs = 'asci'", ":1: glyphs: 'asci' is not one of auto, unicode, ascii; do you mean ascii?"),
        ("alerts = ['redy']", "do you mean ready?"),
        ("alerts = 'ready'", ":1: alerts: 'ready' is not a list of"),
        ("hot_c = 5", ":1: hot_c: 5 is not a number from 40 to 120"),
        ("hot_c = true", ":1: hot_c: true is not a number"),
        ("bell = true\ntheme = =", ":2: invalid value: nothing in the file is used"),
        ("theme = 'a", "at end of document"),
        ('on_verdict = "a\\u0000b"', ":1: on_verdict: "),
    ],
)
def test_a_mistake_is_said_with_its_line_and_costs_only_its_own_value(tmp_path: Path, text: str, says: str) -> None:
    found = load(tmp_path, text)
    assert len(found.problems) == 1
    assert found.problems[0].startswith(str(tmp_path))
    assert says in found.problems[0]
    assert found.config == Config()


def test_a_mistake_leaves_the_rest_of_the_file_in_force(tmp_path: Path) -> None:
    found = load(tmp_path, 'bell = "loud"\nmouse = false\n[keys]\nkill = "d"\ndetach = ["Q", "^x"]\n')
    assert (found.config.bell, found.config.mouse) == (True, False)
    assert found.config.keys == {"detach": ("Q", "ctrl+x")}
    assert len(found.problems) == 2


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a" * (1 << 21)], ids=["not-utf8", "huge"])
def test_a_file_that_is_no_text_is_a_problem_and_holds_nothing(tmp_path: Path, body: bytes) -> None:
    load(tmp_path)
    path = tmp_path / "launchmon/config.toml"
    path.write_bytes(body)
    found = config.load({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found.config == Config()
    assert [problem.startswith(str(path)) for problem in found.problems] == [True]


def test_a_directory_in_place_of_the_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "launchmon/config.toml").mkdir(parents=True)
    assert "Is a directory" in config.load({"XDG_CONFIG_HOME": str(tmp_path)}).problems[0]


def test_two_actions_can_trade_their_keys(tmp_path: Path) -> None:
    found = load(tmp_path, '[keys]\nkill = "d"\nstacks = "k"\n')
    assert found.problems == ()
    assert found.config.keys == {"kill": ("d",), "stacks": ("k",)}


def test_keys_can_be_given_by_an_option(tmp_path: Path) -> None:
    found = load(tmp_path, '[keys]\nkill = "K"\n', **{"keys.kill": "f8,^k"})
    assert found.config.keys == {"kill": ("f8", "ctrl+k")}
    assert found.origins == {"keys.kill": "-c"}


def test_lines_are_found_in_tables_and_under_quoted_names() -> None:
    text = 'a = 1\n\n# b = 2\n[keys]  # mine\n"kill" = "x"\ndetach=["q",\n "Q"]\n'
    assert line_numbers(text) == {"a": 1, "keys": 4, "keys.kill": 5, "keys.detach": 6}
