"""The agent as one zip, made from the installed package; with nvidia-ml-py, which is pure Python."""

from __future__ import annotations

import functools
import importlib.util
import io
import marshal
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

import launchmon_agent
from launchmon_agent.boot import SHIPPED

PACKAGES = ("pynvml",)
"""Modules of one file that the agent uses where the target has none of its own."""

AS_SOURCE = frozenset(("launchmon_agent/stacks/hook/sitecustomize.py", "launchmon_agent/log/regex_worker.py"))
"""What another Python is given to run: the hook by the server's own, the worker by a child without packages."""

BYTECODE = int.from_bytes(MAGIC_NUMBER[:2], "little")
"""As the stub says it (``boot.READY``)."""

_UNCHECKED = (1).to_bytes(4, "little")
"""The flags of a ``.pyc`` that is named by the hash of its source and is not checked against it (PEP 552)."""


@functools.cache
def agent_zip(*, compiled: bool, deflated: bool) -> bytes:
    """``launchmon_agent`` with its data files; the same bytes for the same sources.

    ``compiled``: for a Python of the same bytecode, which spares it most of the time that it takes to start.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED) as bundle:
        folder = Path(launchmon_agent.__path__[0])
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = f"launchmon_agent/{path.relative_to(folder)}"
                _add(bundle, name, path, compiled=compiled)
                if compiled and name in AS_SOURCE:
                    _add(bundle, name, path, compiled=False)
        for name in PACKAGES:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None and spec.origin.endswith(f"/{name}.py"):
                _add(bundle, f"{SHIPPED}/{name}.py", Path(spec.origin), compiled=compiled)
    return out.getvalue()


def _add(bundle: zipfile.ZipFile, name: str, path: Path, *, compiled: bool) -> None:
    data = path.read_bytes()
    if compiled and name.endswith(".py"):
        code = SourceFileLoader(name, str(path)).get_code(name)  # from __pycache__, where that is new enough
        name, data = f"{name}c", MAGIC_NUMBER + _UNCHECKED + source_hash(data) + marshal.dumps(code)
    bundle.writestr(zipfile.ZipInfo(name), data, bundle.compression)
