"""Imports each module in an interpreter that has imported nothing else of ours. Cheaply: one interpreter, a fork per
module, and packages of others that many of them bring in are there before the fork.

So are some modules of ours, for those that they do not import themselves. That hides no circle of imports: nothing of
what they bring in leads back to those, and each part of it was imported before without them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"

STANDARD = ("asyncio", "contextlib", "ctypes", "dataclasses", "json", "socket", "subprocess", "typing", "zipfile")

_DRIVER = """
import json, os, sys

order = json.load(sys.stdin)
sys.path[:0] = order["path"]

if order["only"] is not None:

    class Only:
        # Hides every package that is neither named nor of the standard library.
        def find_spec(self, name, path=None, target=None):
            top = name.partition(".")[0]
            if top not in order["only"] and top not in sys.stdlib_module_names and not top.startswith("_"):
                raise ModuleNotFoundError(f"{name} is hidden here", name=name)

    sys.meta_path.insert(0, Only())


for name in order["preloaded"]:
    __import__(name)


def attempt(name):
    before = set(sys.modules)
    try:
        __import__(name)
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}
    file = getattr(sys.modules[name], "__file__", None)
    new = set(sys.modules) - before
    return {"loaded": sorted({module.partition(".")[0] for module in new}), "file": file, "modules": sorted(new)}


def forked(name):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)  # what a module prints at import does not belong into the answer
        with os.fdopen(writing, "w") as out:
            json.dump(attempt(name), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return answer


def tell(names):
    for name in names:
        print(json.dumps([name, forked(name)]), flush=True)


left = order["modules"]
for common in order["common"]:
    brought = set(forked(common).get("modules", ()))
    tell(name for name in left if name in brought)
    left = [name for name in left if name not in brought]
    if brought:
        __import__(common)
tell(left)
"""


@dataclass(frozen=True)
class Imported:
    """What importing one module did."""

    error: str | None = None
    loaded: frozenset[str] = frozenset()  # top-level packages that it brought in
    file: str | None = None


def modules(package: str) -> list[str]:
    """Every module of a package in ``src``, itself included, found as files, so nothing is imported to find them."""
    names = []
    for file in sorted((SRC / package).rglob("*.py")):
        parts = file.relative_to(SRC).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def import_each(
    names: Sequence[str],
    path: Sequence[Path] = (SRC,),
    only: Collection[str] | None = None,
    preloaded: Sequence[str] = (),
    common: Sequence[str] = (),
) -> dict[str, Imported]:
    """Import each module by itself, ``path`` in front. With ``only``, no other third-party package can be imported.

    ``preloaded``: modules that every one of them may import, and that are not told in the answer therefore.
    ``common``: modules of ours, of which each is there for those that it does not import; not told in their answers.
    """
    order = {
        "preloaded": [*STANDARD, *preloaded],
        "common": list(common),
        "modules": list(names),
        "path": [str(entry) for entry in path],
        "only": None if only is None else list(only),
    }
    done = subprocess.run(
        [sys.executable, "-I", "-c", _DRIVER], input=json.dumps(order), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    out = {}
    for line in done.stdout.splitlines():
        name, answer = json.loads(line)
        loaded = frozenset(answer.get("loaded", ()))
        out[name] = Imported(answer.get("error"), loaded, answer.get("file"))
    return out
