"""The flag list of the SGLang that a server runs, from its installation. Blocking; for a thread.

The server's own interpreter says where the package is (20–50 ms, nothing of SGLang is imported); its source is read and
parsed (0.1 s for 0.5.23, against 6 s and a GB of memory for ``--help``). Only a source that is not understood makes the
program itself be asked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from launchmon_agent.runs.environment import without_hook
from launchmon_agent.sglang.command import parse as parse_command
from launchmon_agent.sglang.flags import help_text, source
from launchmon_agent.sglang.flags.model import FlagList
from launchmon_agent.sglang.toggles import flags_of_tables

_PROBE = (
    "import importlib.metadata as m, importlib.util as u\n"
    "s = u.find_spec('sglang')\n"
    "print((s and s.submodule_search_locations or [''])[0])\n"
    "print(m.version('sglang'))\n"
)
_PROBE_S = 20.0
HELP_S = 120.0
"""``--help`` imports torch: seconds, and far more from a cold network file system."""


def flag_list(argv: Sequence[str], interpreter: str | None, cwd: str, environ: Mapping[str, str]) -> FlagList:
    """Never raises: without an installation that can be read it is what the tables know, and not complete."""
    if interpreter is None or parse_command(argv).simulated:
        return flags_of_tables(None)
    folder, version = _installation(interpreter, cwd, environ)
    if folder is not None:
        try:
            return FlagList(source.parse(read_sources(folder)), version=version)
        except (OSError, UnicodeDecodeError, source.NotUnderstood):
            flags = help_text.parse(_help(interpreter, cwd, environ))
            if len(flags) >= source.FEWEST:
                return FlagList(flags, version=version, source="help")
    return flags_of_tables(version)


def read_sources(folder: str) -> dict[str, str]:
    """Path below the package → text of the files that declare flags. Raises OSError where the main one is missing.

    As utf-8-sig: one release has a byte-order mark.
    """
    paths = [source.MAIN, *(path for path in source.CONSTANTS if os.path.exists(os.path.join(folder, path)))]
    fields = os.path.join(folder, source.FIELDS)
    if os.path.isdir(fields):
        paths += [f"{source.FIELDS}/{name}" for name in sorted(os.listdir(fields)) if name.endswith(".py")]
    found = {}
    for path in paths:
        with open(os.path.join(folder, path), encoding="utf-8-sig") as file:
            found[path] = file.read()
    return found


def _installation(interpreter: str, cwd: str, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Where the package lies and its version; None where that cannot be learnt."""
    lines = _run([interpreter, "-c", _PROBE], cwd, environ, _PROBE_S).splitlines()
    folder = lines[0] if lines and os.path.isdir(lines[0]) else None
    return folder, lines[1] if len(lines) > 1 else None


def _help(interpreter: str, cwd: str, environ: Mapping[str, str]) -> str:
    wide = {**environ, "COLUMNS": "400"}
    return _run([interpreter, "-m", "sglang.launch_server", "--help"], cwd, wide, HELP_S)


def _run(argv: list[str], cwd: str, environ: Mapping[str, str], seconds: float) -> str:
    """What a program prints; "" where it cannot be run or takes too long. Its failure does not matter."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd if os.path.isdir(cwd) else None,
            env=without_hook(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(sys.getfilesystemencoding(), "replace")
