"""The agent as one zip, made from the installed package; with nvidia-ml-py, which is pure Python."""

from __future__ import annotations

import functools
import importlib.util
import io
import zipfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from launchmon_agent.boot import SHIPPED

if TYPE_CHECKING:
    from importlib.abc import Traversable

PACKAGES = ("pynvml",)
"""Modules of one file that the agent uses where the target has none of its own."""


@functools.cache
def agent_zip() -> bytes:
    """``launchmon_agent`` with its data files, deflated; the same bytes for the same sources."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        _add(bundle, resources.files("launchmon_agent"), "launchmon_agent")
        for name in PACKAGES:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None and spec.origin.endswith(f"/{name}.py"):
                _write(bundle, f"{SHIPPED}/{name}.py", Path(spec.origin).read_bytes())
    return out.getvalue()


def _add(bundle: zipfile.ZipFile, folder: Traversable, name: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                _add(bundle, entry, path)
        elif not entry.name.endswith(".pyc"):
            _write(bundle, path, entry.read_bytes())


def _write(bundle: zipfile.ZipFile, path: str, data: bytes) -> None:
    bundle.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
