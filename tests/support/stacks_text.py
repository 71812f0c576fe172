"""Stacks written as py-spy prints them → frames and dumps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from launchmon_agent.events import Frame, RankStack, Stacks
from launchmon_agent.stacks.model import FrameTable, ReadThread

PACKAGES = "/env/lib/python3.11/site-packages/"
_FRAME = re.compile(r"(?P<function>.+?) \((?P<file>.+?)(?::(?P<line>\d+))?\)")
_NATIVE = re.compile(r".*\.so(\.[\d.]+)?$|kernel|system call|state")


def frame(text: str) -> Frame:
    """``barrier (torch/distributed/distributed_c10d.py:4321)``."""
    found = _FRAME.fullmatch(text.strip())
    assert found is not None, text
    file = found["file"]
    native = _NATIVE.fullmatch(file) is not None
    whole = file if native or file.startswith("<") else PACKAGES + file
    return Frame(found["function"], whole, int(found["line"]) if found["line"] else None, native)


def frames(text: str) -> tuple[Frame, ...]:
    """One a line, innermost first; empty lines are passed over."""
    return tuple(frame(line) for line in text.splitlines() if line.strip())


def sections(text: str) -> dict[str, str]:
    """``[name]`` headings → what stands below each. Lines that begin with # are comments."""
    out: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("["):
            name = line.strip("[]")
            assert name not in out, name
            out[name] = []
        elif line.strip() and not line.startswith("#"):
            out[name].append(line)
    return {name: "\n".join(lines) for name, lines in out.items()}


def dump(
    stacks: Mapping[str, str | Sequence[Frame]],
    at: float = 100.0,
    threads: Mapping[str, Sequence[str]] | None = None,
    nodes: Mapping[str, int] | None = None,
) -> Stacks:
    """A dump of rank (or ``launcher``, ``dp-controller``) → its main thread. ``threads``: further ones of each."""
    table = FrameTable()
    out = []
    for pid, (who, stack) in enumerate(stacks.items(), 1000):
        role = who if who in ("launcher", "dp-controller") else "scheduler"
        main = frames(stack) if isinstance(stack, str) else tuple(stack)
        read = [ReadThread(main, name="MainThread", os_id=pid, main=True)]
        read += [ReadThread(frames(text), name=f"thread-{n}") for n, text in enumerate((threads or {}).get(who, ()))]
        out.append(
            RankStack(
                pid=pid,
                start_time=50.0 + pid,
                role=role,
                rank=who if role == "scheduler" else None,
                node=(nodes or {}).get(who),
                means="py-spy",
                threads=tuple(map(table.thread, read)),
            )
        )
    return Stacks(at, id=f"dump-{at}", frames=table.frames, stacks=tuple(out))
