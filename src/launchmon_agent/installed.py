"""Which SGLang a running server has, read from its installation without importing or starting anything.

The server's interpreter names its ``site-packages``, and ``sglang-0.5.23.dist-info`` there names the version; editable
installations have one too. A few directory listings, 1 ms.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator

from launchmon_agent.sensors import proc
from launchmon_agent.sglang.command import is_python

_DIST_INFO = re.compile(r"^sglang-(?P<version>\d[^-]*)\.dist-info$")
_PACKAGES = re.compile(rb"(/\S+/(?:site|dist)-packages)/")


def sglang_version(pid: int) -> str | None:
    """Of the server with this launcher; None where it cannot be seen."""
    root = root_of(pid)
    for folder in package_folders(pid, root):
        version = _version_in(root + folder)
        if version is not None:
            return version
    return None


def interpreter(pid: int) -> str | None:
    """The Python of a process as its virtual environment names it (``/proc/PID/exe`` is behind the links), or None."""
    argv = proc.cmdline(pid)
    if not argv or not is_python(argv[0]):
        return None
    word = argv[0]
    if os.path.isabs(word):
        return word
    if "/" in word:
        return os.path.normpath(os.path.join(_link(pid, "cwd") or "/", word))
    return shutil.which(word, path=(proc.environ(pid) or {}).get("PATH", os.defpath))


def package_folders(pid: int, root: str) -> Iterator[str]:
    """Where packages of this process may lie, most likely first, as it names them; ``root`` leads to its ``/``."""
    environ = proc.environ(pid) or {}
    yield from (path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(path))
    prefixes = [
        os.path.dirname(os.path.dirname(path)) for path in (interpreter(pid), _link(pid, "exe")) if path is not None
    ]
    for prefix in dict.fromkeys((*prefixes[:1], environ.get("VIRTUAL_ENV", ""), *prefixes[1:], "/usr/local", "/usr")):
        if os.path.isabs(prefix):
            yield from (folder[len(root) :] for folder in folders_below(root + prefix))
    maps = proc.read(f"{proc.PROC}/{pid}/maps") or b""
    yield from dict.fromkeys(os.fsdecode(found) for found in _PACKAGES.findall(maps))


def folders_below(prefix: str) -> list[str]:
    """Where the packages of a Python lie that is installed, or of an environment that was made, at this place."""
    return sorted(glob.glob(f"{glob.escape(prefix)}/lib*/python3*/*-packages"))


def _version_in(folder: str) -> str | None:
    try:
        found = [match["version"] for match in map(_DIST_INFO.match, os.listdir(folder)) if match]
    except OSError:
        return None
    return found[0] if len(found) == 1 else None  # an upgrade that failed may leave two, which says nothing


def root_of(pid: int) -> str:
    """What to put before a path as the process sees it: empty, but for one in a container."""
    theirs = proc.namespace(pid, "mnt")
    return "" if theirs in (None, proc.namespace("self", "mnt")) else f"{proc.PROC}/{pid}/root"


def _link(pid: int, name: str) -> str | None:
    try:
        return os.readlink(f"{proc.PROC}/{pid}/{name}")
    except OSError:
        return None
