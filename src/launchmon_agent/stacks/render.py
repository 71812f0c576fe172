"""A merged dump as plain text, and a dump as a file for speedscope. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from launchmon_agent.events import RankStack, Stacks
from launchmon_agent.stacks.compare import Change
from launchmon_agent.stacks.explain import Explanation
from launchmon_agent.stacks.merge import Group, Merged, MergedFrame, ThreadGroup, other_threads
from launchmon_agent.stacks.model import main_thread
from launchmon_agent.stacks.ranges import label

_INDENT = "    "
_LONGEST_NAME = 100
_STATES = {"T": "stopped by a signal", "t": "held by a debugger", "D": "in disk sleep"}


def text(merged: Merged, *, whole: bool = False, threads: bool = False) -> str:
    """What ``launchmon dump`` prints and a saved dump holds. Ends with a newline.

    ``whole``: runtime frames too. ``threads``: also the threads beside the main ones.
    """
    dump = merged.dump
    ranks = sum(stack.rank is not None for stack in dump.stacks)
    lines = [_headline(dump, ranks)]
    for group in (*merged.groups, *merged.others):
        lines += ["", *_group(group, ranks if group in merged.groups else 0, dump.stacks, merged.changes, whole)]
    lines += _remarks("without stacks", merged.unread)
    lines += _remarks("remarks", [stack for stack in dump.stacks if stack.problem and stack not in merged.unread])
    if threads:
        lines += _threads(other_threads(dump), whole)
    return "\n".join(lines) + "\n"


def _headline(dump: Stacks, ranks: int) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(dump.at))
    means = ", ".join(dict.fromkeys(stack.means for stack in dump.stacks if stack.means)) or "nothing that worked"
    what = f"{ranks} rank{'' if ranks == 1 else 's'}"
    others = [stack.who for stack in dump.stacks if stack.rank is None]
    took = "" if dump.seconds is None else f" in {dump.seconds:.2f} s"
    asked = ", taken automatically" if dump.automatic else ""
    return f"stacks of {' and '.join([what, *others])} at {when}, by {means}{took}{asked}"


def _group(
    group: Group, ranks: int, stacks: Sequence[RankStack], changes: Sequence[Change], whole: bool
) -> Iterator[str]:
    of = f"  {len(group.ranks)} of {ranks}" if ranks > 1 else ""
    common = f"  ({_common(group.shared)})" if group.shared else ""
    moves = _moves([change for change in changes if change.who in group.ranks])
    yield f"{group.label}{of}{common}{_states(group, stacks)}{moves}"
    yield from _explanation(group.explanation, group.inside)
    yield from _frames(group.frames if whole else group.shown)


def _states(group: Group, stacks: Sequence[RankStack]) -> str:
    """Those of its processes that cannot run on by themselves."""
    words: dict[str, list[str]] = {}
    for stack in stacks:
        word = _STATES.get(stack.state_before or "")
        if word and stack.who in group.ranks:
            words.setdefault(word, []).append(stack.who)
    return "".join(f"  {label(who)} {word}" for word, who in words.items())


def _common(shared: str) -> str:
    return shared if " of the " in shared else f"all of {shared}"


def _explanation(said: Explanation | None, inside: Explanation | None = None) -> Iterator[str]:
    if said is None:
        return
    yield f"  {said.what}"
    if inside is not None:
        yield f"  its innermost frame {inside.what}"
    yield f"  ends with: {said.ends}"
    if said.cure:
        yield f"  if it does not: {said.cure}"


def _moves(changes: Sequence[Change]) -> str:
    """``unchanged ×4``, ``moved``; of several ranks that differ, for each."""
    words: dict[str, list[str]] = {}
    for change in changes:
        if change.moved is None:
            continue
        word = f"unchanged ×{change.unchanged}" if change.unchanged else f"moved, was in {change.was}"
        if change.unchanged and change.threads_moved:
            word += ", other threads moved"
        words.setdefault(word, []).append(change.who)
    if len(words) == 1:
        return f"  {next(iter(words))}"
    return "".join(f"  {label(who)} {word}" for word, who in words.items())


def _frames(frames: Sequence[MergedFrame]) -> Iterator[str]:
    for frame in frames:
        at = ",".join(map(str, frame.lines))
        place = f"{frame.file}:{at}" if at and frame.file else frame.file or at
        yield f"{_INDENT}{short_function(frame.function)}" + (f" ({place})" if place else "")


def short_function(name: str) -> str:
    """A name without the arguments of its templates: those of C++ may fill a screen."""
    if "::" in name:
        out, depth = [], 0
        for letter in name:
            depth += letter == "<"
            if depth == 0:
                out.append(letter)
            depth -= letter == ">" and depth > 0
        name = "".join(out)
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"


def _threads(groups: Sequence[ThreadGroup], whole: bool) -> Iterator[str]:
    for group in groups:
        names = ", ".join(group.names) or "unnamed"
        yield ""
        yield f"{label(group.ranks)}  {group.count} other thread{'' if group.count == 1 else 's'}: {names}"
        yield from _explanation(group.explanation)
        shown = tuple(frame for frame in group.frames if not frame.runtime) or group.frames
        yield from _frames(group.frames if whole else shown)


def _remarks(heading: str, stacks: Sequence[RankStack]) -> Iterator[str]:
    """What went less than well with processes; equal remarks once."""
    said: dict[tuple[str, str | None], list[str]] = {}
    for stack in stacks:
        said.setdefault((_general(stack), stack.cure), []).append(stack.who)
    if said:
        yield from ("", heading)
    for (problem, cure), who in said.items():
        yield f"  {label(who)}: {problem}"
        if cure:
            yield f"    try: {cure}"


def _general(stack: RankStack) -> str:
    """The problem without the number of the process, so that those of several ranks are one."""
    return (stack.problem or "no frames").replace(f" of process {stack.pid}", "")


# ----------------------------------------------------------------------------------------------------------- speedscope


def speedscope(dump: Stacks, name: str = "launchmon") -> dict[str, Any]:
    """A dump in speedscope's file format: one profile for all ranks, with each rank's main thread as one sample.

    Each sample weighs 1, so the width of a frame is the number of ranks in it. The format: speedscope's
    ``file-format-spec.ts``.
    """
    frames = [{"name": frame.function, "file": frame.file, "line": frame.line or 0} for frame in dump.frames]
    samples = []
    for stack in dump.stacks:
        thread = main_thread(stack)
        if stack.rank is not None and thread is not None:
            samples.append(list(reversed(thread.frames)))
    profile = {
        "type": "sampled",
        "name": "main threads of all ranks",
        "unit": "none",
        "startValue": 0,
        "endValue": len(samples),
        "samples": sorted(samples),
        "weights": [1] * len(samples),
    }
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": "launchmon",
        "shared": {"frames": frames},
        "profiles": [profile],
        "activeProfileIndex": 0,
    }
