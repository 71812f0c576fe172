"""How the data files name frames: bare or qualified, with or without a file. Pure.

A frame is written ``function(file)``, or ``function`` where the name is unmistakable:

* ``function``: a bare name (``barrier``), or a qualified one (``GroupCoordinator.barrier``) that also fits a frame of
  which only the bare name is known (Python up to 3.10, faulthandler); alternatives are separated by ``/``; ``*``
  stands for any characters.
* ``file``: the end of the file's path in whole components (``torch/cuda/streams.py``), with ``*``.

A chain is frames from the inside to the outside, separated by `` < ``: others may lie between. A chain that begins with
``^`` has its first frame innermost, runtime frames aside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from launchmon_agent.events import Frame
from launchmon_agent.stacks.model import bare, short_file

_LOCALS = re.compile(r"\.?<locals>")


class PatternError(ValueError):
    """A pattern cannot be read. The message says which."""


@dataclass(frozen=True)
class FramePattern:
    function: re.Pattern[str]  # of the bare name
    owner: str | None  # the class, where the pattern names one: "GroupCoordinator"
    file: re.Pattern[str] | None

    def fits(self, frame: Frame) -> bool:
        if self.function.fullmatch(bare(frame.function)) is None:
            return False
        if self.owner is not None and "." in frame.function and "::" not in frame.function:
            owner = _LOCALS.sub("", frame.function.rpartition(".")[0])
            if owner != self.owner:
                return False
        return self.file is None or self.file.search(short_file(frame)) is not None


@dataclass(frozen=True)
class Chain:
    frames: tuple[FramePattern, ...]
    innermost: bool

    def fits(self, stack: Sequence[Frame], first: int) -> bool:
        """``stack``: innermost first. ``first``: which of its frames counts as innermost."""
        if self.innermost:
            return first < len(stack) and self.frames[0].fits(stack[first]) and self._goes_on(stack, first + 1)
        for place, frame in enumerate(stack):
            if self.frames[0].fits(frame):
                return self._goes_on(stack, place + 1)
        return False

    def _goes_on(self, stack: Sequence[Frame], place: int) -> bool:
        """Whether the further patterns fit frames from ``place`` outwards, in order."""
        rest = iter(stack[place:])
        return all(any(pattern.fits(frame) for frame in rest) for pattern in self.frames[1:])


@cache
def parse_frame(text: str) -> FramePattern:
    """Raises :class:`PatternError`."""
    found = re.fullmatch(r"(?P<function>[^()\s]+)(?:\((?P<file>[^()]+)\))?", text.strip())
    if found is None:
        raise PatternError(f"{text!r} is not function(file)")
    functions, file = found["function"], found["file"]
    owner = None
    if "." in functions and "::" not in functions:
        owner, _, functions = functions.rpartition(".")
        if file is None or "/" in owner:
            raise PatternError(f"{text!r} is qualified, so it has to name its file and no other class")
    function = re.compile("|".join(map(_glob, functions.split("/"))))
    return FramePattern(function, owner, None if file is None else file_pattern(file))


def file_pattern(text: str) -> re.Pattern[str]:
    return re.compile(r"(?:^|/)" + _glob(text) + r"$")


def parse_chain(text: str) -> Chain:
    """Raises :class:`PatternError`."""
    text = text.strip()
    frames = tuple(parse_frame(part) for part in text.removeprefix("^").split(" < "))
    return Chain(frames, text.startswith("^"))


def _glob(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*")
