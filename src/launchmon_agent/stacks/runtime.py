"""Which frames only carry others (``runtime_frames.table``). Pure."""

from __future__ import annotations

import functools
import pkgutil
import re

from launchmon_agent.events import Frame
from launchmon_agent.stacks.model import bare, short_file
from launchmon_agent.stacks.patterns import FramePattern, file_pattern, parse_frame


@functools.cache
def rows() -> tuple[FramePattern, ...]:
    """Raises ValueError for a row that cannot be read."""
    data = pkgutil.get_data("launchmon_agent.stacks", "runtime_frames.table")
    if data is None:
        raise FileNotFoundError("runtime_frames.table")
    out = []
    for line in data.decode("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        function, file = line.split(None, 1)
        pattern = parse_frame(function)
        out.append(FramePattern(pattern.function, None, None if file == "-" else file_pattern(file.strip())))
    return tuple(out)


@functools.cache
def _by_name() -> tuple[dict[str, list[re.Pattern[str] | None]], list[FramePattern]]:
    """The rows whose function is one plain name, by that name, and the others."""
    plain: dict[str, list[re.Pattern[str] | None]] = {}
    others = []
    for row in rows():
        name = re.sub(r"\\(.)", r"\1", row.function.pattern)
        if ".*" in row.function.pattern:
            others.append(row)
        else:
            plain.setdefault(name, []).append(row.file)
    return plain, others


def is_runtime(frame: Frame) -> bool:
    plain, others = _by_name()
    files = plain.get(bare(frame.function), ())
    if any(file is None or file.search(short_file(frame)) for file in files):
        return True
    return any(row.fits(frame) for row in others)


def innermost(frames: list[Frame]) -> int:
    """The place of the frame that says what a thread does: the first of Python that is no runtime frame.

    Where there is no Python frame (below ptrace, ``/proc`` shows the kernel's alone), the first that is no runtime
    frame. ``len(frames)`` where none is.
    """
    python = any(not frame.native for frame in frames)
    for place, frame in enumerate(frames):
        if not (python and frame.native) and not is_runtime(frame):
            return place
    return len(frames)
