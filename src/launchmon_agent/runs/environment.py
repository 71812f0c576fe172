"""The environment that a run was started with, without what launchmon added to it. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from launchmon_agent.stacks.hook.sitecustomize import HOME, KEEPER


def unprepared(environ: Mapping[str, str], preparations: Sequence[str]) -> dict[str, str]:
    """``environ`` before a launch prepared it, as far as that can be told from the words of the preparations.

    The next attempt is prepared anew: its hook lies elsewhere, and its NCCL port is its own.
    """
    plain = without_hook(environ)
    for preparation in preparations:
        name, _, value = preparation.partition(": ")[0].partition("=")
        if name == "PATH":
            folder = value.partition(os.pathsep)[0]
            first, separator, rest = plain.get("PATH", "").partition(os.pathsep)
            if separator and first == folder:
                plain["PATH"] = rest
        elif plain.get(name) == value:
            del plain[name]
    return plain


def without_hook(environ: Mapping[str, str]) -> dict[str, str]:
    """Without the launch hook, which would make any Python that is started so one of the run's processes."""
    plain = {name: value for name, value in environ.items() if name not in (HOME, KEEPER)}
    home = environ.get(HOME)
    parts = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != home]
    if home is not None and parts:
        plain["PYTHONPATH"] = os.pathsep.join(parts)
    elif home is not None:
        plain.pop("PYTHONPATH", None)
    return plain
