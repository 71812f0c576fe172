"""docs/verbs.md, made from the commands themselves: every verb, its arguments and its options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from launchmon.cli import root

VERBS = """\
# Verbs

`launchmon VERB --help` says the same. Data goes to stdout, everything else to stderr. A verb ends with 0 when it did
what it was asked, 1 when that was refused (what happened, the likely cause, and one thing to try), 2 when it was called
wrongly, 130 when it was interrupted; `wait`, `doctor` and others have [statuses](#exit-statuses) of their own.

Where a verb takes `RUN`, it is the id or name of a launched run. Without it, and without `--pid`, `--port` or `--tmux`,
the only run on the machine is meant.
"""

STATUSES = """
## Exit statuses

| verb | status |
|---|---|
| `wait` | 0 ready · 3 stuck · 4 crashed or stopped · 5 `--timeout` is over · 6 no such run |
| `relaunch --ladder` | 0 a launch is ready · 3 none is |
| `doctor` | 0 all is well · 1 something cannot work · 2 works with less |
| `config` | 1 something in the file is wrong |
| all | 1 refused · 2 wrong usage · 130 interrupted |
"""


def verbs_page(made: str) -> str:
    commands = [("launchmon", root), *((f"launchmon {name}", root.commands[name]) for name in sorted(root.commands))]
    return "".join((made, VERBS, *(_verb(name, command) for name, command in commands), STATUSES))


def _verb(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [
        _option(param, context) for param in command.params if isinstance(param, click.Option) and not param.hidden
    ]
    table = f"\n| option | |\n|---|---|\n{''.join(options)}" if options else ""
    return f"\n## `{name}`\n\n    {name} {usage}\n\n{''.join(_help(command))}{table}"


def _help(command: click.Command) -> Iterator[str]:
    """The help text; paragraphs that click is told to leave alone (``\\b``) are code."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))):
        lines = paragraph.splitlines()
        literal = lines[0] == "\b"
        text = "\n".join(f"    {line}" for line in lines[1:]) if literal else _escaped(" ".join(lines))
        yield f"{chr(10) if number else ''}{text}\n"


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    if record is None:
        return ""
    names, text = record
    cells = (f"`{names}`".replace("|", "\\|"), _escaped(text).replace("|", "\\|"))
    return f"| {' | '.join(cells)} |\n"


def _escaped(text: str) -> str:
    return re.sub(r"([*_<])", r"\\\1", text)
