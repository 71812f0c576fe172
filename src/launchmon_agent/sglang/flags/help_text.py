"""The flag list as ``python -m sglang.launch_server --help`` prints it, for a source that is not understood. Pure.

The text is argparse's: ``  --tp-size TP_SIZE, --tensor-parallel-size TP_SIZE``, then the help, indented. Types are not
in it, and a default only where the help text itself says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from launchmon_agent.sglang.flags.model import MAYBE, SWITCH, VALUE, VALUES, Flag

_OPTION = re.compile(r"^ {1,4}(?P<options>-{1,2}[\w-]+.*)$")
_NAME = re.compile(r"(?<![\w-])--(?P<name>[A-Za-z0-9][\w-]*)")
_CHOICES = re.compile(r"\{([^{}]*)\}")
_GAP = re.compile(r"\s{2,}")


def parse(text: str) -> tuple[Flag, ...]:
    """The flags of a help text; ``--help`` itself is left out. Empty where the text is none."""
    return tuple(flag for block in _blocks(text) if (flag := _flag(block)) is not None)


def _blocks(text: str) -> Iterator[list[str]]:
    """The lines of each option: the one that names it, and those that are indented below."""
    block: list[str] = []
    for line in text.splitlines():
        if _OPTION.match(line):
            if block:
                yield block
            block = [line.strip()]
        elif block and line.startswith("      "):
            block.append(line.strip())
        elif block and line.strip():
            yield block
            block = []
    if block:
        yield block


def _flag(block: list[str]) -> Flag | None:
    options, *rest = _GAP.split(block[0], maxsplit=1)
    names = ["--" + match["name"] for match in _NAME.finditer(_CHOICES.sub("", options))]
    if not names or "--help" in names:
        return None
    negated = {name for name in names if name.startswith("--no-") and "--" + name[5:] in names}
    names = [name for name in names if name not in negated]
    metavar = options.partition(names[-1] if not negated else sorted(negated)[-1])[2].strip()
    choices = _CHOICES.search(options)
    return Flag(
        name=names[0],
        aliases=tuple(names[1:]),
        takes=SWITCH if not metavar else _takes(metavar),
        choices=tuple(part.strip() for part in choices[1].split(",") if part.strip()) if choices else (),
        help=" ".join((*rest, *block[1:])),
        negatable=bool(negated),
        deprecated="deprecated" in " ".join((*rest, *block[1:]))[:60].lower(),
    )


def _takes(metavar: str) -> str:
    if metavar.startswith("["):
        return VALUES if "..." in metavar else MAYBE
    return VALUES if "..." in metavar else VALUE
