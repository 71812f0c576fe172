"""The flags of the SGLang that a server runs, from its installed source. Nothing is imported or started; for a thread.

0.1 s for 0.5.23: some directory listings, and its declarations of flags parsed.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from urllib.parse import unquote

from launchmon_agent.events import Installed, Run
from launchmon_agent.installed import folders_below, package_folders, root_of
from launchmon_agent.judge.supported import installed
from launchmon_agent.runs.flaglist import read_sources
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.flags import source
from launchmon_agent.sglang.flags.model import FlagList

_LARGEST_URL = 64 << 10


def installed_flags(run: Run, now: float) -> Installed | None:
    """None: its source cannot be seen, or declares flags in a way that is not known."""
    if run.pid is None or run.simulated:
        return None
    for folder in packages(run.pid, run.interpreter):
        try:
            flags = source.parse(read_sources(folder))
        except (OSError, UnicodeDecodeError, source.NotUnderstood):
            continue
        return installed(run.argv, FlagList(flags, version=run.engine_version), now)
    return None


def packages(pid: int, interpreter: str | None) -> Iterator[str]:
    """Folders of packages ``sglang`` that a process would import, the most likely first.

    ``interpreter``: its Python where that is known: a process that has just ended does not tell it any more.
    """
    root = root_of(pid)
    for path in (proc.environ(pid) or {}).get("PYTHONPATH", "").split(os.pathsep):
        if os.path.isabs(path):
            yield from _in(root + path, root)
    if interpreter is not None:
        for folder in folders_below(root + os.path.dirname(os.path.dirname(interpreter))):
            yield from _in(folder, root)
    for folder in package_folders(pid, root):
        yield from _in(root + folder, root)


def _in(folder: str, root: str) -> Iterator[str]:
    """The package below a folder of packages, or where its editable installation says that it is (PEP 610)."""
    places = [os.path.join(folder, "sglang")]
    for path in glob.glob(f"{glob.escape(folder)}/sglang-*.dist-info/direct_url.json"):
        try:
            url = json.loads(proc.read(path, _LARGEST_URL) or b"").get("url", "")
        except (ValueError, AttributeError):
            continue
        if isinstance(url, str) and url.startswith("file://"):
            tree = root + unquote(url.removeprefix("file://"))
            places += [os.path.join(tree, "sglang"), os.path.join(tree, "python", "sglang")]
    yield from (place for place in places if os.path.isfile(os.path.join(place, source.MAIN)))
