"""``launchmon config``: the configuration in force, and where each value comes from."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from launchmon import config
from launchmon.actions import SCOPES, in_scope
from launchmon.cli.showing import effective
from launchmon.config import Effective
from launchmon.format import wrap
from launchmon.keymap import rebound

EXIT_PROBLEMS = 1


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, problems included.")
@click.option("--path", "only_path", is_flag=True, help="Print only where the file is looked for.")
@click.option("--keys", "only_keys", is_flag=True, help="Print every action instead, with its id and its keys.")
@click.option("--template", is_flag=True, help="Print a file with every setting, its help and its default.")
def command(as_json: bool, only_path: bool, only_keys: bool, template: bool) -> None:
    """Print every setting, its value, and whether that is the default or comes from the file, the environment or an
    option. Ends with 1 when something in them is wrong; each mistake is said on stderr.

    \b
    launchmon config --template > ~/.config/launchmon/config.toml
    """
    if only_path:
        click.echo(config.path())
        return
    if template:
        click.echo(template_text(), nl=False)
        return
    found = effective()
    if only_keys:
        click.echo(keys_text(found))
        return
    click.echo(json.dumps(as_object(found), indent=2) if as_json else table_text(found))
    if found.problems:
        sys.exit(EXIT_PROBLEMS)


def as_object(found: Effective) -> dict[str, Any]:
    """The whole as JSON has it."""
    settings = {
        setting.name: {
            "value": getattr(found.config, setting.name),
            "from": found.origins.get(setting.name, "default"),
            "default": setting.default,
            "variable": setting.variable,
        }
        for setting in config.SETTINGS
    }
    keys = {id_: {"value": keys, "from": found.origins[f"keys.{id_}"]} for id_, keys in found.config.keys.items()}
    return {"path": str(config.path()), "settings": settings, "keys": keys, "problems": found.problems}


def table_text(found: Effective) -> str:
    """A line for each setting: name, value, origin."""
    rows = [
        (
            setting.name,
            toml_value(getattr(found.config, setting.name)),
            found.origins.get(setting.name, "default"),
        )
        for setting in config.SETTINGS
    ]
    rows += [(f"keys.{id_}", toml_value(keys), found.origins[f"keys.{id_}"]) for id_, keys in found.config.keys.items()]
    names = max(len(name) for name, _, _ in rows)
    values = min(30, max(len(value) for _, value, _ in rows))
    return "\n".join(f"{name:<{names}}  {value:<{values}}  {origin}" for name, value, origin in rows)


def keys_text(found: Effective) -> str:
    """Every action by scope: keys, id, help."""
    lines: list[str] = []
    for scope, name in SCOPES.items():
        lines += ["", name]
        for action in rebound(in_scope(scope), found.config.keys):
            lines.append(f"  {action.shown_keys:<14}  {action.id:<18}  {action.help}")
    return "\n".join(lines[1:])


def template_text() -> str:
    """A configuration file that changes nothing: every setting with its help, commented out."""
    lines = ["# launchmon's configuration. What is commented out is the default."]
    for setting in config.SETTINGS:
        lines += ["", *(f"# {line}" for line in _wrapped(f"{setting.row.help} ({setting.kind})"))]
        lines.append(f"#{setting.name} = {toml_value(setting.default)}")
    lines += ["", *(f"# {line}" for line in _wrapped(config.KEYS_HELP)), "#[keys]", '#kill = ["K", "f9"]']
    return "\n".join(lines) + "\n"


def toml_value(value: object) -> str:
    """A value as the file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return f"[{', '.join(toml_value(word) for word in value)}]"
    return json.dumps(value, ensure_ascii=False)


def _wrapped(text: str) -> list[str]:
    return wrap(text, 110)
