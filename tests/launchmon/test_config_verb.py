"""``launchmon config``, and what every verb says of a mistake in the configuration."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launchmon import cli, config
from launchmon.cli.config import template_text, toml_value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the configuration; nothing else is set."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for setting in config.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    (tmp_path / "launchmon").mkdir()
    return tmp_path / "launchmon"


def launchmon(*words: str) -> Result:
    return CliRunner().invoke(cli.root, words)


def test_it_says_each_value_and_where_it_comes_from(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config.toml").write_text('bell = false\n[keys]\nkill = "K"\n')
    monkeypatch.setenv("LAUNCHMON_MOUSE", "off")
    done = launchmon("--theme", "launchmon-light", "-c", "hot_c=70", "config")
    assert done.exit_code == 0, done.output
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in done.stdout.splitlines()}
    assert rows["bell"] == f"false {home}/config.toml:1"
    assert rows["mouse"] == "false $LAUNCHMON_MOUSE"
    assert rows["theme"] == '"launchmon-light" --theme'
    assert rows["hot_c"] == "70 -c"
    assert rows["osc9"] == "true default"
    assert rows["keys.kill"] == f'["K"] {home}/config.toml:3'
    assert set(rows) == {setting.name for setting in config.SETTINGS} | {"keys.kill"}


def test_json_has_the_same(home: Path) -> None:
    found = json.loads(launchmon("-c", "log_wrap=yes", "config", "--json").stdout)
    assert found["path"] == str(home / "config.toml")
    assert found["settings"]["log_wrap"] == {
        "value": True,
        "from": "-c",
        "default": False,
        "variable": "LAUNCHMON_LOG_WRAP",
    }
    assert found["problems"] == []


def test_a_mistake_is_said_on_stderr_and_by_the_status(home: Path) -> None:
    (home / "config.toml").write_text("them = 1\n")
    done = launchmon("config")
    assert done.exit_code == 1
    assert "there is no setting 'them'; do you mean theme?" in done.stderr
    assert "them =" not in done.stdout


def test_a_mistake_does_not_stop_another_verb(home: Path) -> None:
    (home / "config.toml").write_text("them = 1\n")
    done = launchmon("demo", "--list")
    assert done.exit_code == 0
    assert "do you mean theme?" in done.stderr
    assert "seed" in done.stdout


def test_an_option_that_is_no_pair_is_wrong_usage(home: Path) -> None:
    assert launchmon("-c", "theme", "config").exit_code == 2


def test_the_template_is_a_file_that_changes_nothing_and_names_everything(home: Path) -> None:
    (home / "config.toml").write_text(launchmon("config", "--template").stdout)
    assert config.load() == config.Effective()
    lines = [line[1:] for line in template_text().splitlines() if line.startswith("#") and not line.startswith("# ")]
    values = tomllib.loads("\n".join(lines))
    assert {setting.name for setting in config.SETTINGS} | {"keys"} == set(values)
    for setting in config.SETTINGS:
        assert config.fitted(setting, values[setting.name]) == setting.default


def test_keys_are_listed_as_they_are_in_force(home: Path) -> None:
    done = launchmon("-c", "keys.kill=f9", "config", "--keys")
    (row,) = [line for line in done.stdout.splitlines() if line.split()[1:2] == ["kill"]]
    assert row.split()[0] == "F9"


def test_the_path_alone(home: Path) -> None:
    assert launchmon("config", "--path").stdout == f"{home}/config.toml\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (87.0, "87"), (0.5, "0.5"), ('a"b', '"a\\"b"'), (("a", "b"), '["a", "b"]'), ((), "[]")],
)
def test_values_are_written_as_the_file_has_them(value: object, text: str) -> None:
    assert toml_value(value) == text
    assert tomllib.loads(f"x = {text}")["x"] == (list(value) if isinstance(value, tuple) else value)
