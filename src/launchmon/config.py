"""What a person can set, once: the table of settings, and the effective value of each with where it comes from.

A value comes from a flag, else from the environment, else from the file, else from the table. Whatever is wrong is a
line in :attr:`Effective.problems` and costs that one value: a bad configuration never keeps launchmon from showing a
run.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from launchmon import keymap
from launchmon.config_file import ConfigFile, read

Value = bool | float | str | tuple[str, ...]

ENVIRONMENT = "LAUNCHMON_"
"""The variable of a setting is this and its name in capitals."""

ALERTS = (
    *("ready", "crashed", "stopped", "rank-missing", "one-behind", "waiting-lock", "waiting-peer"),
    *("deadlock-silent", "deadlock-spinning", "deadlock-divergent", "hung-serving"),
)
"""Verdicts that decide something, or that wait for somebody to do something."""

OTHER_VERDICTS = ("starting", "reading", "downloading", "compiling", "computing", "http-wait", "serving", "unknown")

PREPARATIONS = ("path", "environ", "unbuffered", "nccl-ras", "hook")
"""What the agent prepares for a launched run: ``launchmon_agent.runs.launch.PREPARATIONS``, by a test."""

PANELS = ("gpus", "ranks", "log")
"""Panels that can be hidden. The phases and the verdict stay."""


@dataclass(frozen=True)
class Row:
    """What the table says of a setting beside its name, type and default."""

    help: str
    choices: tuple[str, ...] = ()
    """The only words allowed, for a text or in a list; empty: any."""
    least: float = 0.0
    most: float = 0.0
    flag: str = ""
    """The option that sets it, where it has one of its own; ``-c NAME=VALUE`` sets any."""


def _setting(default: Any, help_: str, **row: Any) -> Any:
    return field(default=default, metadata={"row": Row(help_, **row)})


@dataclass(frozen=True)
class Config:
    """The settings. Each field is a row of the table: its name, type, default, and a :class:`Row`."""

    theme: str = _setting(
        "auto",
        "How launchmon looks: the name of a theme. auto takes one that fits the terminal's colours and background.",
        flag="--theme",
    )
    glyphs: str = _setting(
        "auto",
        "Draw with Unicode or with ASCII only. auto takes ASCII where the locale or the terminal has nothing else.",
        choices=("auto", "unicode", "ascii"),
    )
    animation: str = _setting(
        "never",
        "Whether lists scroll smoothly. local: only where the screen is not seen over SSH, since motion costs bytes.",
        choices=("never", "local"),
    )
    mouse: bool = _setting(True, "Take mouse clicks and the wheel. Without it the terminal's own selection works.")
    read_only: bool = _setting(False, "Refuse every key that would change something on the target.", flag="--read-only")
    bell: bool = _setting(
        True, "Ring the terminal's bell when the verdict changes to one of alerts. tmux marks the window then."
    )
    osc9: bool = _setting(
        True, "Send a desktop notice (OSC 9) then, which iTerm2, kitty, WezTerm and Windows Terminal show."
    )
    terminal_title: bool = _setting(
        True, "Keep the verdict and the run's name in the title of the terminal or of the tmux pane."
    )
    alerts: tuple[str, ...] = _setting(
        ALERTS, "The verdicts that call somebody who looks elsewhere.", choices=(*ALERTS, *OTHER_VERDICTS)
    )
    on_verdict: str = _setting(
        "",
        "A shell command to run whenever the verdict changes; $LAUNCHMON_VERDICT and $LAUNCHMON_SUMMARY say it.",
        flag="--on-verdict",
    )
    hidden_panels: tuple[str, ...] = _setting(
        (), "Panels that are hidden until you show them, where no choice is remembered.", choices=PANELS
    )
    remember_layout: bool = _setting(True, "Remember which panels are hidden or expanded, for each size of the screen.")
    log_wrap: bool = _setting(False, "Wrap long log lines from the start.")
    hot_c: float = _setting(
        87.0,
        "Temperature in °C from which a GPU is marked. Data centre GPUs slow themselves down at 87 to 92.",
        least=40,
        most=120,
    )
    diagnose_s: float = _setting(10.0, "Seconds that launchmon diagnose looks for.", least=1, most=600, flag="--for")
    launch_without: tuple[str, ...] = _setting(
        (), "Preparations of a launch to leave out every time.", choices=PREPARATIONS, flag="--without"
    )
    keys: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict,
        metadata={
            "row": Row("Other keys for actions, by the action's id, as a table [keys]; docs/keys.md lists them.")
        },
    )


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    default: Value
    row: Row

    @property
    def variable(self) -> str:
        return ENVIRONMENT + self.name.upper()

    @property
    def kind(self) -> str:
        """What a value of it is, for a person."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, float):
            return f"a number from {self.row.least:g} to {self.row.most:g}"
        if isinstance(self.default, tuple):
            return f"a list of: {', '.join(self.row.choices)}"
        return f"one of: {', '.join(self.row.choices)}" if self.row.choices else "a text"


SETTINGS = tuple(
    Setting(item.name, cast("Value", item.default), item.metadata["row"])
    for item in dataclasses.fields(Config)
    if item.name != "keys"
)

KEYS_HELP: str = Config.__dataclass_fields__["keys"].metadata["row"].help


class Unfit(ValueError):
    """A value is none that the setting can have. The message says what it may be."""


@dataclass(frozen=True)
class Effective:
    """The configuration in force. ``origins``: for each setting that is not the default, where its value is from."""

    config: Config = Config()
    origins: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a person's own settings and themes are: ``$XDG_CONFIG_HOME/launchmon``."""
    home = environment.get("XDG_CONFIG_HOME", "")
    base = Path(home) if home.startswith("/") else Path(environment.get("HOME", "/")) / ".config"
    return base / "launchmon"


def path(environment: Mapping[str, str] = os.environ) -> Path:
    return directory(environment) / "config.toml"


def load(environment: Mapping[str, str] = os.environ, flags: Mapping[str, str] | None = None) -> Effective:
    """The effective configuration. ``flags``: texts by the name of the setting, as given by options. Never raises."""
    file = read(path(environment))
    return _Loading(file, environment, flags or {}).effective()


def fitted(setting: Setting, value: object) -> Value:
    """A value of the file as the setting's own type. Raises :class:`Unfit`."""
    default, row = setting.default, setting.row
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
    elif isinstance(default, float):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and row.least <= value <= row.most:
            return float(value)
    elif isinstance(default, tuple):
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(_word(word, row.choices) for word in value)
    elif isinstance(value, str) and "\0" not in value:
        return _word(value, row.choices) if row.choices else value
    raise Unfit(f"{_shown(value)} is not {setting.kind}")


def from_text(setting: Setting, text: str) -> Value:
    """The same for a text, of the environment or of an option. Raises :class:`Unfit`."""
    if isinstance(setting.default, bool):
        truth = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        return fitted(setting, truth.get(text.strip().lower(), text))
    if isinstance(setting.default, float):
        try:
            return fitted(setting, float(text))
        except ValueError:
            raise Unfit(f"{text!r} is not {setting.kind}") from None
    if isinstance(setting.default, tuple):
        return fitted(setting, text.replace(",", " ").split())
    return fitted(setting, text)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; do you mean theme?``, or nothing where no known name is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; do you mean {close[0]}?" if close else ""


def _word(word: str, choices: Sequence[str]) -> str:
    if word not in choices:
        raise Unfit(f"{word!r} is not one of {', '.join(choices)}{nearest(word, choices)}")
    return word


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


class _Loading:
    """One loading: file, environment and flags over the defaults, collecting what is wrong."""

    def __init__(self, file: ConfigFile, environment: Mapping[str, str], flags: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment
        self._flags = flags
        self._values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        self._problems: list[str] = list(file.problems)

    def effective(self) -> Effective:
        for setting in SETTINGS:
            self._settle(setting)
        self._complain_of_unknown()
        self._settle_keys()
        return Effective(Config(**self._values), self._origins, tuple(self._problems))

    def _settle(self, setting: Setting) -> None:
        """The first of flag, environment and file that has a value that fits."""
        name = setting.name
        if name in self._flags and self._take(name, setting.row.flag or "-c", from_text, setting, self._flags[name]):
            return
        text = self._environment.get(setting.variable)
        if text is not None and self._take(name, f"${setting.variable}", from_text, setting, text):
            return
        if name in self._file.values:
            self._take(name, self._file.place(name), fitted, setting, self._file.values[name])

    def _take(self, name: str, origin: str, convert: Any, setting: Setting, value: object) -> bool:
        try:
            self._values[name] = convert(setting, value)
        except Unfit as unfit:
            self._problems.append(f"{origin}: {name}: {unfit}")
            return False
        self._origins[name] = origin
        return True

    def _complain_of_unknown(self) -> None:
        known = [*(setting.name for setting in SETTINGS), "keys"]
        for name in self._file.values:
            if name not in known:
                place = self._file.place(name)
                self._problems.append(f"{place}: there is no setting {name!r}{nearest(name, known)}")
        for name in self._flags:
            if name.partition(".")[0] not in known:
                self._problems.append(f"-c: there is no setting {name!r}{nearest(name, known)}")

    def _settle_keys(self) -> None:
        wanted: dict[str, tuple[object, str]] = {}
        table = self._file.values.get("keys", {})
        if isinstance(table, dict):
            for id_, keys in table.items():
                wanted[id_] = keys, self._file.place("keys", id_)
        else:
            self._problems.append(f"{self._file.place('keys')}: keys is a table: [keys], and a line for each action")
        for name, text in self._flags.items():
            table_name, dot, id_ = name.partition(".")
            if table_name == "keys":
                wanted[id_ if dot else name] = text.split(","), "-c"
        settled = keymap.settle(wanted)
        self._values["keys"] = settled.keys
        self._origins |= {f"keys.{id_}": wanted[id_][1] for id_ in settled.keys}
        self._problems += settled.problems
