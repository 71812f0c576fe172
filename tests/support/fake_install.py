"""An installed SGLang that declares its flags as a release does, and whose launcher does what a test tells it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.flag_sources import CALLS

LAUNCHER = """
import argparse, os, sys, time
while not os.path.exists(os.environ["GATE"]):  # imports
    time.sleep(0.05)
parser = argparse.ArgumentParser(prog="launch_server.py")
parser.add_argument("--model-path")
parser.add_argument("--port", type=int)
parser.add_argument("--mem-fraction-static", type=float)
options = parser.parse_args()
{then}
"""


def install(folder: Path, then: str = "time.sleep(600)") -> dict[str, str]:
    """A package below ``folder``; the environment that finds it.

    Its launcher parses its flags when the file that ``GATE`` names is there, and does ``then``.
    """
    for path, text in {**CALLS, "launch_server.py": LAUNCHER.format(then=then), "__init__.py": ""}.items():
        file = folder / "sglang" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "sglang-0.5.8.dist-info").mkdir()
    return {"PYTHONPATH": str(folder), "GATE": str(folder / "gate")}


def command(*flags: str, port: int) -> list[str]:
    return [sys.executable, "-m", "sglang.launch_server", "--model-path", "org/tiny", "--port", str(port), *flags]
