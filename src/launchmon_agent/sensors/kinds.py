"""What the children of a rank are doing there: compilers, downloads and others, by the program they run. Pure."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence

from launchmon_agent.sensors.tables import rows
from launchmon_agent.sglang.command import is_python

_LONGEST = 20
"""Characters of a program's own name that are kept where it is in no row of the table."""


@functools.cache
def _table() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((kind, on, re.compile(expression)) for kind, on, expression in rows("children.table", 3))


def kind_of(argv: Sequence[str], comm: str = "") -> str | None:
    """``nvcc``, ``inductor``, ``download``…; None for shells and wrappers, which only start the one that counts."""
    program = _program(argv) or comm
    name = os.path.basename(program)
    for kind, on, expression in _table():
        if expression.fullmatch(name) if on == "name" else expression.search(program):
            return None if kind == "-" else kind
    return name[:_LONGEST] or None


def _program(argv: Sequence[str]) -> str:
    """The path of the program; of a Python, its script or module; ``python`` for a Python that runs neither."""
    if not argv:
        return ""
    if not is_python(argv[0]):
        return argv[0].split(" ", 1)[0]  # some programs write all their arguments over the first
    words = iter(argv[1:])
    for word in words:
        if word in ("-X", "-W"):
            next(words, None)
        elif word == "-m":
            return next(words, "python")
        elif word == "-c":
            return "python"
        elif not word.startswith("-"):
            return word
    return "python"
