"""What this program can use where it was started: the terminal, its neighbours, its files."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata

from launchmon import __version__, config, recent
from launchmon.connect.ssh.config import files, listed_hosts
from launchmon_agent.capability import BROKEN, LESS, OK, Capability

SMALLEST = (80, 24)
"""Columns and rows that every screen has room in."""

WANTED_FREE = 16 << 20
"""Bytes: targets, layouts and a py-spy for other machines."""

TMUX_S = 3.0


def examine(environ: Mapping[str, str] = os.environ) -> list[Capability]:
    """Everything, in the order of use."""
    return [
        program(),
        terminal(environ, terminal_size()),
        colour(environ),
        unicode(environ),
        tmux(environ),
        clipboard(environ),
        ssh(),
        asyncssh(),
        configuration(environ),
        state(environ),
    ]


def program() -> Capability:
    return Capability("program", OK, f"launchmon {__version__}, Python {platform.python_version()}, {sys.executable}")


# -------------------------------------------------------------------------------------------------------- the terminal


def terminal_size() -> tuple[int, int] | None:
    """Columns and rows; None where no terminal belongs to this process."""
    for stream in (1, 2, 0):
        try:
            size = os.get_terminal_size(stream)
        except OSError:
            continue
        return size.columns, size.lines
    return None


def terminal(environ: Mapping[str, str], size: tuple[int, int] | None) -> Capability:
    name = environ.get("TERM", "")
    if size is None:
        cost = "no screen can be drawn here; launchmon diagnose, wait and runs print instead"
        return Capability("terminal", LESS, "there is none", cost, "launchmon diagnose --json")
    words = f"{size[0]}×{size[1]}, {name or 'of no name'}"
    if not name or name == "dumb":
        return Capability("terminal", BROKEN, words, "no screen can be drawn on it", "TERM=xterm-256color launchmon")
    if size[0] < SMALLEST[0] or size[1] < SMALLEST[1]:
        cost = "panels are left out until there is room"
        return Capability("terminal", LESS, words, cost, f"enlarge it to {SMALLEST[0]}×{SMALLEST[1]}")
    return Capability("terminal", OK, words)


def colour(environ: Mapping[str, str]) -> Capability:
    from launchmon.tui.theme import ANSI, fitting  # Textual takes a while to import

    if environ.get("NO_COLOR"):
        return Capability("colour", OK, "none, as NO_COLOR asks: glyphs and words say the same")
    if fitting(environ) != ANSI:
        return Capability("colour", OK, f"{environ.get('COLORTERM') or '256'} colours")
    inside = "tmux set -g default-terminal tmux-256color" if environ.get("TMUX") else "TERM=xterm-256color launchmon"
    cost = "themes cannot be shown as they are; glyphs and words say the same as colours"
    return Capability("colour", LESS, "16 colours", cost, inside)


def unicode(environ: Mapping[str, str]) -> Capability:
    from launchmon.tui.glyphs import UNICODE, fitting

    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    words = f"locale {locale}" if locale else "no locale is set"
    if fitting(environ) == UNICODE:
        return Capability("unicode", OK, words)
    return Capability(
        "unicode", LESS, words, "everything is drawn in ASCII, curves are coarse", "LC_ALL=C.UTF-8 launchmon"
    )


def tmux(environ: Mapping[str, str]) -> Capability:
    if shutil.which("tmux", path=environ.get("PATH", os.defpath)) is None:
        cost = "no launch --split, and no screen that outlives this terminal"
        return Capability("tmux", LESS, "not installed", cost, "install tmux with this system's package manager")
    version = _printed("-V") or "of unknown version"
    return Capability("tmux", OK, f"{version}, {'inside' if environ.get('TMUX') else 'not inside of it now'}")


def clipboard(environ: Mapping[str, str]) -> Capability:
    """Copying goes through the terminal by OSC 52, which no terminal says whether it takes."""
    cost = "y copies nothing; select with the mouse while holding Shift"
    if environ.get("TMUX"):
        setting = _printed("show", "-gv", "set-clipboard") or "not known"
        if setting != "on":
            return Capability(
                "clipboard", LESS, f"tmux's set-clipboard is {setting}", cost, "tmux set -g set-clipboard on"
            )
        return Capability("clipboard", OK, "through tmux, if the terminal takes it (OSC 52)")
    name = _deaf(environ)
    if name is not None:
        return Capability("clipboard", LESS, f"{name} takes no text to copy (OSC 52)", cost, "another terminal")
    return Capability("clipboard", OK, "through the terminal, if it takes it (OSC 52)")


def _deaf(environ: Mapping[str, str]) -> str | None:
    """A terminal that is known to ignore OSC 52."""
    if environ.get("TERM") == "linux":
        return "the Linux console"
    if environ.get("TERM_PROGRAM") == "Apple_Terminal":
        return "Terminal.app"
    return None


def _printed(*arguments: str) -> str | None:
    """What tmux says; None where it does not answer."""
    try:
        done = subprocess.run(
            ["tmux", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TMUX_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


# ----------------------------------------------------------------------------------------------------- other machines


def ssh() -> Capability:
    own = os.path.expanduser("~/.ssh/config")
    if os.path.exists(own) and own not in files():
        cost = "aliases, keys and jump hosts of it are not known"
        return Capability("ssh", LESS, f"{own} cannot be read", cost, f"chmod 600 {own}")
    count = len(listed_hosts())
    if not files():
        return Capability("ssh", OK, "no configuration: hosts are named as user@host")
    return Capability("ssh", OK, f"{count} host{'' if count == 1 else 's'} in {', '.join(files())}")


def asyncssh() -> Capability:
    help_ = f"{sys.executable} -m pip install asyncssh"
    if importlib.util.find_spec("asyncssh") is None:
        return Capability("asyncssh", BROKEN, "not installed", "--on reaches no machine; --via 'ssh HOST' does", help_)
    return Capability("asyncssh", OK, metadata.version("asyncssh"))


# ------------------------------------------------------------------------------------------------------------- files


def configuration(environ: Mapping[str, str]) -> Capability:
    problems = config.load(environ).problems
    path = config.path(environ)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return Capability("config", LESS, f"{problems[0]}{more}", "the defaults are used there", "launchmon config")
    return Capability("config", OK, str(path) if path.exists() else f"none at {path}: the defaults")


def state(environ: Mapping[str, str]) -> Capability:
    folder = os.path.dirname(recent.path(environ))
    place = folder
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    cost = "targets and layouts are not remembered"
    help_ = "XDG_STATE_HOME=/a/directory/with/space launchmon"
    if not os.access(place, os.W_OK | os.X_OK):
        return Capability("client-state", LESS, f"{folder} cannot be written", cost, help_)
    try:
        free = os.statvfs(place)
    except OSError as error:
        return Capability("client-state", LESS, f"{folder}: {error.strerror}", cost, help_)
    if free.f_bavail * free.f_frsize < WANTED_FREE:
        return Capability("client-state", LESS, f"{folder} has no space left", cost, help_)
    return Capability("client-state", OK, folder)
