"""A launch while a person makes it: what is filled in, and the command that comes of it. Pure.

What is filled in is a :class:`~launchmon.tui.relaunch.draft.Draft`, as for a relaunch: one word for each flag and each
variable. So the same rules say which flags there are and which values fit.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launchmon.tui.relaunch.draft import Base, Draft, subject, words_of
from launchmon_agent.codec import from_json
from launchmon_agent.errors import Refused
from launchmon_agent.sglang.common import CommonFlag, common_flags
from launchmon_agent.sglang.flags.change import Change, apply, command_line
from launchmon_agent.sglang.flags.model import Flag, FlagList

PYTHON = "python"
MODULE = ("-m", "sglang.launch_server")
MODEL = "--model-path"


@dataclass(frozen=True)
class Installed:
    """The Python that is chosen, and the SGLang that it has."""

    python: str
    flags: FlagList
    pythons: tuple[tuple[str, str | None], ...] = ()  # that were found: path, version of SGLang
    cwd: str | None = None

    @functools.cached_property
    def known(self) -> Base:
        """As the rows of the relaunch dialog take it."""
        return Base(0, known={flag.name: dataclasses.asdict(flag) for flag in self.flags.flags})


def installed_of(options: Mapping[str, Any]) -> Installed:
    """From an agent's answer. Raises ``Malformed`` where it makes no sense."""
    flags = tuple(from_json(Flag, one) for one in options["flags"])
    return Installed(
        python=str(options["python"]),
        flags=FlagList(flags, version=options["version"], complete=bool(options["flags_complete"])),
        pythons=tuple((str(one["path"]), one["version"]) for one in options["pythons"]),
        cwd=options["cwd"],
    )


@dataclass(frozen=True)
class Item:
    """A row that can be selected. ``name``: PYTHON, a flag, or a variable."""

    section: str  # needs | often | more
    name: str
    label: str
    hint: str = ""
    value: str | None = None  # None: left out; "": a switch that is on
    default: str | None = None  # of SGLang, where it is left out
    is_switch: bool = False


@dataclass(frozen=True)
class Built:
    """The command, or why there is none yet."""

    argv: tuple[str, ...] = ()
    env: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    refusal: Refused | None = None
    shown: str = ""
    """One line for a shell, secrets hidden."""


def items(installed: Installed, draft: Draft) -> list[Item]:
    """In their order; what was added beyond the common flags comes last."""
    version = installed.flags.version
    hint = f"it has SGLang {version}" if version else "no SGLang of known version is in it"
    out = [Item("needs", PYTHON, "python", hint, installed.python)]
    common = common_flags(installed.flags)
    out += [_item(row, installed.flags.find(row.flag), draft) for row in common]
    names = {row.flag for row in common}
    for word in draft.words:
        if subject(word) not in names:
            value = word.partition("=")[2]
            flag = installed.flags.find(subject(word))
            out.append(Item("more", subject(word), subject(word), "", value, is_switch=bool(flag and flag.is_switch)))
    return out


def _item(row: CommonFlag, flag: Flag | None, draft: Draft) -> Item:
    word = draft.of(row.flag)
    return Item(
        section=row.section,
        name=row.flag,
        label=row.label,
        hint=row.hint,
        value=None if word is None else word.partition("=")[2],
        default=None if flag is None or flag.default in (None, "None") else flag.default.strip("'\""),
        is_switch=flag is not None and flag.is_switch,
    )


def taken(draft: Draft, text: str, installed: Installed) -> Draft:
    """The draft with what a person typed as ``--flag=VALUE``, ``--flag VALUE`` or ``NAME=VALUE``. Raises Refused."""
    word = words_of(text)
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        flag = installed.flags.find(name)
        spelt = installed.flags.full_name(name)
        # One row for each flag, however it is spelt; a --no- form is another one.
        full = flag.name if flag is not None and spelt in flag.names else name
        word = f"{full}{equals}{value}"
    candidate = draft.with_(word)
    built = build(installed, candidate, need_model=False)
    if built.refusal is not None:
        raise built.refusal
    return candidate


def build(installed: Installed, draft: Draft, *, need_model: bool = True) -> Built:
    """What would be started. ``need_model``: a command without one is none yet."""
    base = (installed.python, *MODULE)
    try:
        change = Change.of_words(draft.words)
        if change.drop or change.unset:
            raise Refused("there is nothing to drop", "a new launch has only what is filled in here")
        applied = apply(base, change, installed.flags)
    except Refused as refusal:
        return Built(refusal=refusal)
    if need_model and draft.of(MODEL) is None:
        missing = Refused("no model is chosen yet", "a launch needs --model-path", "Enter on the row model")
        return Built(applied.argv, change.environment, applied.warnings, missing, _line(applied.argv, change))
    return Built(applied.argv, change.environment, applied.warnings, None, _line(applied.argv, change))


def _line(argv: Sequence[str], change: Change) -> str:
    return command_line(argv, change.environment)


def completion(text: str, found: Mapping[str, Any]) -> str:
    """How a path goes on as far as all directories that were found agree; "" where that is no further."""
    paths = [str(one["path"]) for one in found["directories"]]
    if not paths:
        return ""
    longer = os.path.commonprefix(paths)  # noqa: RUF071 - by characters, as every shell completes
    if len(paths) == 1 and not found["directories"][0]["model"]:
        longer += "/"
    return longer if len(longer) > len(os.path.expanduser(text)) else ""
