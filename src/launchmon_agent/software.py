"""The software of a server, for a report: read from its installation without importing or starting anything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from launchmon_agent.installed import folders_below, package_folders, root_of
from launchmon_agent.sensors import proc

PACKAGES = (
    *("sglang", "sglang-router", "sgl-kernel", "torch", "triton", "flashinfer-python", "flash-attn", "transformers"),
    *("nvidia-nccl-cu12", "nvidia-nccl-cu13", "xgrammar", "py-spy"),
)
"""Packages of which a version explains something."""

_DIST_INFO = re.compile(r"^(?P<name>[A-Za-z0-9._]+)-(?P<version>\d[^-]*)\.dist-info$")
_PYTHON = re.compile(r"/python(?P<version>3\.\d+)/")
_CUDA = re.compile(r"""^(?P<kind>cuda|hip)\b[^=\n]*=\s*['"](?P<version>[\d.]+)['"]""", re.MULTILINE)


def software(pid: int | None, interpreter: str | None) -> dict[str, str]:
    """Name → version of ``python``, ``cuda`` (or ``hip``) and :data:`PACKAGES`, as far as they can be seen.

    ``pid``: the launcher while it lives. Of one that has ended, its ``interpreter`` leads to the packages.
    """
    found: dict[str, str] = {}
    for folder in _folders(pid, interpreter):
        here = _versions(folder)
        python = _PYTHON.search(folder)
        if here and python is not None:
            found.setdefault("python", python["version"])
        for name, version in here.items():
            found.setdefault(name, version)
        built_for = _CUDA.search((proc.read(f"{folder}/torch/version.py") or b"").decode("utf-8", "replace"))
        if built_for is not None:
            found.setdefault(built_for["kind"], built_for["version"])
    return found


def _folders(pid: int | None, interpreter: str | None) -> Iterator[str]:
    if pid is not None:
        root = root_of(pid)
        yield from (root + folder for folder in package_folders(pid, root))
    elif interpreter is not None and os.path.isabs(interpreter):
        yield from folders_below(os.path.dirname(os.path.dirname(interpreter)))


def _versions(folder: str) -> dict[str, str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    found = {}
    for match in filter(None, map(_DIST_INFO.match, names)):
        name = re.sub(r"[-_.]+", "-", match["name"]).lower()  # as the packaging standard compares names
        if name in PACKAGES:
            found[name] = match["version"]
    return found
