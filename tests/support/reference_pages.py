"""The pages of docs/ that are made from the code: verbs, keys, configuration, phases, verdict kinds, clocks, remedies.

    python -m tests.support.reference_pages      writes them anew, after a change to a table

``tests/test_reference_pages.py`` fails while a page differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from launchmon.actions import SCOPES, in_scope
from launchmon.cli.config import toml_value
from launchmon.config import SETTINGS, Setting
from launchmon_agent.judge import clocks, remedies
from launchmon_agent.judge.clocks import ClockRow
from launchmon_agent.judge.remedies import RemedyRow
from tests.support.reference_phases import phases_page, verdict_kinds_page
from tests.support.reference_verbs import verbs_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
MADE = "<!-- made from {table} by: python -m tests.support.reference_pages -->\n\n"

CLOCKS = """\
# Timeouts that end a launch by themselves

A launch that waits is often ended by a timeout somewhere in SGLang, PyTorch or around them, and sometimes a slow but
healthy one is too. launchmon shows the next one to fire as a countdown. This page lists all that it knows.

A timeout that is "not observed" is known, but nothing that launchmon sees tells when it begins: it is never counted
down. Where several defaults are given, each holds for the releases behind it.

"""

REMEDIES = """\
# What launchmon suggests to change

Each suggestion is known from public reports: it cured that failure for others, or tells what it is. For a verdict those
that fit are offered, six at most, the smaller "order" first. A flag that is set already, or that the installed SGLang
does not have, is never suggested.
"""

KEYS = """\
# Keys

Every action, and the keys that it has unless you give it others: by its id, in the table `[keys]` of
[the configuration](configuration.md). Every action is also found by its name with `^P`, and those in the bottom line
can be clicked. An action that **asks** says first what it will do; with `--read-only` it is refused.

```toml
[keys]
kill = "K"                  # instead of k
detach = ["q", "f10"]       # several keys
search = "^F"               # ctrl+f
```

Two actions that work on the same screen cannot have the same key: launchmon says so, and keeps the usual one.
"""

CONFIGURATION = """\
# Configuration

launchmon needs no configuration. A file in `$XDG_CONFIG_HOME/launchmon/config.toml` (usually
`~/.config/launchmon/config.toml`) changes what it does by itself:

    launchmon config --template > ~/.config/launchmon/config.toml      every setting, commented out
    launchmon config                                                   what is in force, and where it comes from

An option wins over the environment, the environment over the file, and the file over the default. `launchmon -c
NAME=VALUE VERB …` sets anything for once. In the environment a list is words with commas or spaces between them.

A mistake in the file is said with its line, and costs only the value that is wrong: the default is used in its place.
`launchmon config` ends with 1 then.

Keys have [a page of their own](keys.md). Own themes are files in `themes/` beside the configuration, read again
whenever they are saved. One color is enough; what is not named is derived from the others, so that it can be read:

```toml
# ~/.config/launchmon/themes/mine.toml, chosen by theme = "mine"
dark = true

[colors]
background = "#1a1b26"
primary = "#7aa2f7"
```
"""

_CONDITIONS = {
    "pcie": "no NVLink between the GPUs, or it is not known",
    "several-gpus": "several ranks on this node",
    "several-nodes": "several nodes",
    "lock": "the lock file is known",
    "proxy": "a proxy variable is set",
    "jit-deepgemm": "DeepGEMM compiles",
    "no-stacks": "no stacks were read",
}


def clocks_page() -> str:
    rows = [row for row in clocks.rows() if row.starts != "unseen"]
    unseen = [row for row in clocks.rows() if row.starts == "unseen"]
    return "".join(
        (
            MADE.format(table="judge/clocks.table"),
            CLOCKS,
            "## Counted down\n",
            *map(_clock, rows),
            "\n## Not observed\n",
            *map(_clock, unseen),
        )
    )


def _clock(row: ClockRow) -> str:
    facts = [("begins", _starts(row)), ("after", _seconds(row)), ("changed by", _changed(row))]
    facts += [
        ("then it will", row.effect),
        ("in the log", f"`{row.message}`" if row.starts != "unseen" else row.message),
    ]
    facts += [("SGLang", _versions(row.versions.text)), ("source", row.source)]
    title = row.name[:1].upper() + row.name[1:] + {"cpu": ", on a CPU", "gpu": ", on GPUs"}.get(row.device, "")
    return _section(f"### {title}", facts)


def _starts(row: ClockRow) -> str:
    waiting = " · ".join(f"`{' ← '.join(chain)}`" for chain in row.chains)
    return {
        "phase": f"when the first rank enters `{row.where}`" + (f" and waits in {waiting}" if waiting else ""),
        "first-done": f"when the first rank has left `{row.where}` and waits for the others"
        + (f", in {waiting}" if waiting else ""),
        "stack": f"when the ranks begin to wait in {waiting}",
        "request": "when a request is worked on and nothing comes of it",
        "error": f"with the line in the log that launchmon knows as `{row.where}`",
        "unseen": "",
    }[row.starts]


def _seconds(row: ClockRow) -> str:
    parts = []
    for seconds, versions in row.defaults:
        text = "off unless set" if seconds is None else f"{seconds:g} s"
        if len(row.defaults) > 1:
            text += f" ({_versions(versions.text)})"
        parts.append(text)
    text = ", ".join(parts)
    if row.until_at > 1:
        text += f"; looked at now and then, so up to {row.until_at:g} times as late"
    return text + (f"; and {row.adds_s:g} s more" if row.adds_s else "")


def _changed(row: ClockRow) -> str:
    names = " · ".join(f"`{name}`" for name in (row.flag, row.env) if name)
    return f"{names} (0: {row.zero})" if row.zero else names


def remedies_page() -> str:
    return "".join((MADE.format(table="judge/remedies.table"), REMEDIES, *map(_remedy, remedies.rows())))


def _remedy(row: RemedyRow) -> str:
    facts = [("for", _list(sorted(row.kinds))), ("order", str(row.order)), ("when", _when(row)), ("why", row.why)]
    facts += [("SGLang", _versions(row.versions.text)), ("source", row.source)]
    return _section("## " + (" · ".join(f"`{part}`" for part in row.change) or row.do), facts)


def _when(row: RemedyRow) -> str:
    parts = [f"in {_list(sorted(row.phases))}"] if row.phases else []
    parts += [_CONDITIONS[condition] for condition in row.when]
    if row.errors:
        parts.append(f"the failure is {_list(sorted(row.errors))}")
    if row.text is not None:
        parts.append(f"its last line holds `{row.text.pattern}`")
    if row.chains:
        parts.append("a rank waits in " + " or ".join(f"`{' ← '.join(chain)}`" for chain in row.chains))
    return "; ".join(parts)


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _versions(text: str) -> str:
    if text.startswith("-"):
        return f"up to {text[1:]}"
    return text.replace("+", " and later").replace("-", " to ")


def _section(title: str, facts: list[tuple[str, str]]) -> str:
    """A heading and a line for each fact that is known."""
    lines = [f"- {name}: {text}\n" for name, text in facts if text]
    return f"\n{title}\n\n{''.join(lines)}"


def keys_page() -> str:
    return "".join((MADE.format(table="src/launchmon/actions"), KEYS, *map(_keys, SCOPES)))


def _keys(scope: str) -> str:
    rows = [
        f"| {_code(action.shown_keys)} | {action.label} | {action.help}{' **Asks.**' if action.confirm else ''} "
        f"| `{action.id}` |\n"
        for action in in_scope(scope)
    ]
    return f"\n## {SCOPES[scope]}\n\n| key | name | what it does | id |\n|---|---|---|---|\n{''.join(rows)}"


def _code(keys: str) -> str:
    """Each key by itself, as code; a vertical bar would end the cell."""
    return " ".join(f"`{key}`" for key in keys.replace("|", "\\|").split(" "))


def configuration_page() -> str:
    rows = [_configurable(setting) for setting in SETTINGS]
    return "".join((MADE.format(table="src/launchmon/config.py"), CONFIGURATION, *rows))


def _configurable(setting: Setting) -> str:
    facts = [("value", setting.kind), ("default", f"`{toml_value(setting.default)}`")]
    facts += [("environment", f"`{setting.variable}`"), ("option", f"`{setting.row.flag}`" if setting.row.flag else "")]
    lines = [f"- {name}: {text}\n" for name, text in facts if text]
    return f"\n## `{setting.name}`\n\n{setting.row.help}\n\n{''.join(lines)}"


PAGES: dict[str, Callable[[], str]] = {
    "clocks.md": clocks_page,
    "remedies.md": remedies_page,
    "keys.md": keys_page,
    "configuration.md": configuration_page,
    "verbs.md": lambda: verbs_page(MADE.format(table="src/launchmon/cli")),
    "phases.md": lambda: phases_page(MADE.format(table="sglang/rail.py and sglang/marks.table")),
    "verdict-kinds.md": lambda: verdict_kinds_page(MADE.format(table="tui/panels/verdict.py and outcome.py")),
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
