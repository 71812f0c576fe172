"""The agent as one zip, made from the installed package."""

from __future__ import annotations

import functools
import io
import zipfile
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Traversable


@functools.cache
def agent_zip() -> bytes:
    """``launchmon_agent`` with its data files, deflated; the same bytes for the same sources."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        _add(bundle, resources.files("launchmon_agent"), "launchmon_agent")
    return out.getvalue()


def _add(bundle: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                _add(bundle, entry, path)
        elif not entry.name.endswith(".pyc"):
            bundle.writestr(zipfile.ZipInfo(path), entry.read_bytes(), zipfile.ZIP_DEFLATED)
