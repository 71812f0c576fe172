"""Reads the configuration file, and says in which line a key is: the parser of TOML does not tell that."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 1 << 20
"""A larger file is no configuration."""

_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"\s*([^=#\[\]]+?)\s*=")


@dataclass(frozen=True)
class ConfigFile:
    """What was in the file; nothing where there is none. ``lines``: of each key, by its dotted name."""

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def place(self, *name: str) -> str:
        """``~/.config/launchmon/config.toml:7``; without the line where it cannot be told."""
        line = self.lines.get(".".join(name))
        return str(self.path) if line is None else f"{self.path}:{line}"


def read(path: Path) -> ConfigFile:
    """Never raises: a file that cannot be read, or is no TOML, is a problem and holds nothing."""
    try:
        with path.open("rb") as file:
            body = file.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            return ConfigFile(path, problems=(f"{path}: larger than 1 MiB: nothing in it is used",))
        text = body.decode()
        values = tomllib.loads(text)
    except FileNotFoundError:
        return ConfigFile(path)
    except OSError as error:
        return ConfigFile(path, problems=(f"{path}: {error.strerror}: the defaults are used",))
    except UnicodeDecodeError:
        return ConfigFile(path, problems=(f"{path}: not UTF-8: nothing in it is used",))
    except tomllib.TOMLDecodeError as error:
        return ConfigFile(path, problems=(_syntax(path, str(error)),))
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a thousand brackets
        return ConfigFile(path, problems=(f"{path}: {error}: nothing in it is used",))
    return ConfigFile(path, values, line_numbers(text))


def _syntax(path: Path, message: str) -> str:
    """``FILE:3: …``: the parser has the line at the end of its message."""
    line = re.search(r"\(at line (\d+), column \d+\)$", message)
    place, what = (str(path), message) if line is None else (f"{path}:{line[1]}", message[: line.start()].rstrip())
    return f"{place}: {what[:1].lower()}{what[1:]}: nothing in the file is used"


def line_numbers(text: str) -> dict[str, int]:
    """The line of each key and each table, by its dotted name, in a valid file.

    Lines inside of texts over several lines can look like keys; a name that was seen before keeps its first line.
    """
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        heading = _TABLE.match(line)
        if heading is not None:
            table = _plain(heading[1])
            found.setdefault(table, number)
            continue
        key = _KEY.match(line)
        if key is not None:
            name = _plain(key[1])
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found


def _plain(name: str) -> str:
    """``keys."kill"`` → ``keys.kill``."""
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
