"""Themes as data: TOML files in ``themes/`` and in a person's own directory, validated when read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import Theme

from launchmon.tui import palette

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DARK = "launchmon-dark"
LIGHT = "launchmon-light"
ANSI = "launchmon-ansi"

COLORS = (*palette.MEANINGS, "foreground", *palette.GROUNDS, "secondary", "boost")
"""What a theme can name. A color that it does not name is derived, or as in the theme that comes with launchmon."""

_VARIABLE = re.compile(r"[a-z][a-z0-9-]*")


class ThemeError(ValueError):
    """A theme file is not valid. The message names the file and the key."""


def directory() -> Path:
    """Where the themes that come with launchmon are: inside the package, or beside ``src`` in a source checkout."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "themes"
    return packaged if packaged.is_dir() else package.parent.parent / "themes"


def load_all() -> list[Theme]:
    """The themes that come with launchmon."""
    return [load(path) for path in sorted(directory().glob("*.toml"))]


def load(path: Path) -> Theme:
    """Read one file. Raises :class:`ThemeError`."""
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: bad TOML, no UTF-8, a number without end
        raise ThemeError(f"{path}: {error}") from None
    return parse(body, str(path), path.stem)


def parse(body: Mapping[str, Any], source: str, name: str) -> Theme:
    """A theme from its parsed file: ``dark``, ``ansi``, ``[colors]`` and, if need be, ``[variables]``."""
    _only(body, ("dark", "ansi", "colors", "variables"), source)
    flags = {key: body.get(key, default) for key, default in (("dark", True), ("ansi", False))}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise ThemeError(f"{source}: {key} is true or false")
    colors, variables = body.get("colors", {}), body.get("variables", {})
    if not isinstance(colors, dict) or not isinstance(variables, dict):
        raise ThemeError(f"{source}: colors and variables are tables")
    _only(colors, COLORS, f"{source}: [colors]")
    for key, value in colors.items():
        _color(value, f"{source}: [colors] {key}", flags["ansi"])
    for key, value in variables.items():
        if not _VARIABLE.fullmatch(key) or not isinstance(value, str):
            raise ThemeError(f"{source}: [variables] {key}: names are lower-case words with dashes, values are texts")
    if flags["ansi"]:  # Textual's own styles need these two, and only some of its own ansi themes define them
        whole = {**_base(ANSI), **colors}
        variables = {"ansi-background": "ansi_default", "ansi-foreground": "ansi_default", **variables}
    else:
        whole = palette.completed(colors, _base(DARK if flags["dark"] else LIGHT))
        variables = {**palette.texts(whole), **variables}
    return Theme(name=name, dark=flags["dark"], ansi=flags["ansi"], variables=dict(variables), **whole)


@lru_cache(maxsize=8)
def _base(name: str) -> dict[str, str]:
    """The colors of a theme that comes with launchmon, which name all that a theme must have."""
    body = tomllib.loads((directory() / f"{name}.toml").read_text(encoding="utf-8"))
    colors: dict[str, str] = body["colors"]
    return colors


def fitting(environment: Mapping[str, str]) -> str:
    """The theme for this terminal where the person chose none."""
    term = environment.get("TERM", "")
    many = environment.get("COLORTERM", "") in ("truecolor", "24bit") or "256color" in term or "kitty" in term
    if environment.get("NO_COLOR") or not many:
        return ANSI
    # COLORFGBG is "foreground;background" in the 16 colours; 7 and 15 are the whites.
    return LIGHT if environment.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else DARK


def _only(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ThemeError(f"{where}: {key} is not known; there are {', '.join(known)}")


def _color(value: object, where: str, ansi: bool) -> None:
    if not isinstance(value, str):
        raise ThemeError(f"{where}: a color is a text")
    try:
        Color.parse(value)
    except ColorParseError:
        raise ThemeError(f"{where}: {value!r} is not a color") from None
    if ansi != value.startswith("ansi_"):
        raise ThemeError(f"{where}: {value!r}: an ansi theme has ansi_ colors only, and no other has any")
