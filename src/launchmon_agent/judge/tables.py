"""Reads data files: sections of ``field: value``, through the package's own loader. Pure.

A value may go on in indented lines. ``#`` begins a comment line. The head of each file describes its fields.
"""

from __future__ import annotations

import configparser
import pkgutil
from collections.abc import Mapping, Sequence


class TableError(ValueError):
    """A data file cannot be read. The message names the section."""


def sections(
    name: str, required: Sequence[str], optional: Sequence[str] = (), package: str = "launchmon_agent.judge"
) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """(section, its fields) in the order of the file; optional fields that are missing are "". Raises TableError.

    ``package``: the one that the file lies beside.
    """
    data = pkgutil.get_data(package, name)
    if data is None:
        raise TableError(f"{name} is not in the package")
    return parse(data.decode("utf-8"), required, optional)


def parse(
    text: str, required: Sequence[str], optional: Sequence[str] = ()
) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """As :func:`sections`, of a text."""
    table = configparser.ConfigParser(
        delimiters=(":",), comment_prefixes=("#",), interpolation=None, empty_lines_in_values=False
    )
    try:
        table.read_string(text)
    except configparser.Error as error:
        raise TableError(str(error)) from None
    found = []
    for section in table.sections():
        fields = dict(table[section])
        missing = [field for field in required if not fields.get(field)]
        unknown = fields.keys() - {*required, *optional}
        if missing or unknown:
            raise TableError(f"[{section}]: without {missing}, with the unknown {sorted(unknown)}")
        found.append((section, {**dict.fromkeys(optional, ""), **fields}))
    return tuple(found)


def lines(value: str) -> tuple[str, ...]:
    """The lines of a value without those that are empty."""
    return tuple(line.strip() for line in value.splitlines() if line.strip())


def words(value: str) -> tuple[str, ...]:
    """The comma-separated parts of a value."""
    return tuple(part.strip() for part in value.replace("\n", ",").split(",") if part.strip())
