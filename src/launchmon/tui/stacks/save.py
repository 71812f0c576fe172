"""A dump as text for the clipboard, and as a file on this machine."""

from __future__ import annotations

import json
import os

from launchmon.format import plural
from launchmon.tui.stacks import words
from launchmon.tui.stacks.tree import Item
from launchmon_agent.codec import encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Stacks
from launchmon_agent.stacks import render
from launchmon_agent.stacks.merge import Merged, MergedFrame

SPEEDSCOPE, JSON, TEXT = ".speedscope.json", ".json", ".txt"


def default_name(dump: Stacks, run: str) -> str:
    """``stacks-kimi-20251129-180541-2.txt``."""
    tidy = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in run)
    return f"stacks-{tidy}-{dump.id or int(dump.at)}{TEXT}"


def content(merged: Merged, path: str, name: str) -> str:
    """What a file of this name holds. Raises :class:`Refused` for an unknown ending."""
    if path.endswith(SPEEDSCOPE):
        return json.dumps(render.speedscope(merged.dump, name))
    if path.endswith(JSON):
        return encode(merged.dump).decode("ascii")
    if path.endswith(TEXT):
        return render.text(merged, whole=True, threads=True)
    raise Refused(
        f"{os.path.basename(path) or 'a file without a name'} says no format",
        "the end of the name chooses it",
        f"end it in {TEXT}, {JSON} or {SPEEDSCOPE}",
    )


def save(merged: Merged, path: str, name: str) -> str:
    """Write a new file; returns its whole path. Raises :class:`Refused` and leaves nothing half written."""
    path = os.path.abspath(os.path.expanduser(path.strip()))
    text = content(merged, path, name)
    try:
        file = open(path, "x", encoding="utf-8")  # noqa: SIM115  (closed below; what fails must be told apart)
    except FileExistsError:
        raise Refused(f"{path} exists already", "", "choose another name") from None
    except OSError as error:
        raise _unwritten(path, error) from None
    try:
        with file:
            file.write(text)
    except OSError as error:
        os.unlink(path)
        raise _unwritten(path, error) from None
    return path


def _unwritten(path: str, error: OSError) -> Refused:
    return Refused(f"{path} could not be written", error.strerror or str(error), "choose another place")


def item_text(item: Item) -> str:
    """One entry as text: what it is, and its frames."""
    lines = [" ".join(part for part in (item.label, f"({item.count})" if item.count else "") if part)]
    if item.gist:
        lines.append(f"  {item.gist}")
    if item.explanation is not None:
        closing = item.inside or item.explanation
        lines.append(f"  ends with: {closing.ends}")
        lines += [f"  if it does not: {closing.cure}"] if closing.cure else []
    if item.problem is not None and item.problem.cure:
        lines.append(f"  try: {item.problem.cure}")
    lines += [f"    {_frame(frame)}" for frame in item.frames]
    if item.pair is not None:
        lines += ["  before:", *(f"    {frame}" for frame in reversed(item.pair.before))]
        lines += ["  after:", *(f"    {frame}" for frame in reversed(item.pair.after))]
    return "\n".join(lines) + "\n"


def _frame(frame: MergedFrame) -> str:
    name, place = render.short_function(frame.function), words.place(frame)
    return f"{name} ({place})" if place else name


def lines_of(text: str) -> str:
    return plural(text.count("\n"), "line")
