"""Puts the launch hook (``hook/sitecustomize.py``) into the directory of a run and into its server's environment."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Mapping

from launchmon_agent.stacks.hook.sitecustomize import HOME, KEEPER

FOLDER = "hook"
ANY_PROCESS = -1


def home_of(run_directory: str) -> str:
    """Where the hook and what it writes lie. The directory exists only where the hook was planted."""
    return os.path.join(run_directory, FOLDER)


def plant(run_directory: str, env: Mapping[str, str], keeper: int = ANY_PROCESS) -> dict[str, str]:
    """Writes the hook and returns the environment to start the server with. Raises OSError.

    ``keeper``: the pid that Yama shall let read the server's processes; -1: any process of the same user. A PYTHONPATH
    that is set stays, behind the hook.
    """
    home = home_of(run_directory)
    os.mkdir(home, 0o700)
    os.mkdir(os.path.join(home, "__pycache__"), 0o700)  # the server's Python would make it with the server's umask
    source = pkgutil.get_data("launchmon_agent.stacks", "hook/sitecustomize.py")
    if source is None:
        raise FileNotFoundError("hook/sitecustomize.py")
    descriptor = os.open(os.path.join(home, "sitecustomize.py"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(source)
    behind = env.get("PYTHONPATH")
    path = home if not behind else os.pathsep.join((home, behind))
    return {**env, "PYTHONPATH": path, HOME: home, KEEPER: str(keeper)}
