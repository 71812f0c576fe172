"""Snapshots of every scene: what is painted at each size, and in which colours under two themes.

    python -m tests.support.snapshots             makes all anew, after a change to a screen; then look at the diff
    python -m tests.support.snapshots stacks …    makes those of some scenes anew

A file holds the characters first. Below are the looks under each theme, row by row: the letter of a look and for how
many cells, from left to right; what a letter stands for is listed above the rows. Rows that look alike are written
once (``7-14 a80``).
"""

from __future__ import annotations

import asyncio
import string
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import unified_diff
from itertools import count, groupby, product
from pathlib import Path

from rich.cells import cell_len

from tests.support.scenes import SCENES, Scene, Size, shown
from tests.support.still import Still, faults, take
from tests.support.tui_rig import PLAIN, Rig

SNAPSHOTS = Path(__file__).resolve().parents[1] / "launchmon" / "tui" / "snapshots"
THEMES = ("launchmon-dark", "launchmon-light")
ANEW = "python -m tests.support.snapshots"


def file_of(scene: Scene, size: Size) -> Path:
    return SNAPSHOTS / scene.name / f"{size[0]}x{size[1]}.txt"


async def snapshot(scene: Scene, size: Size) -> tuple[str, list[str]]:
    """What its file is to hold, and what does not fit on the screen."""
    async with shown(scene, size, replace(PLAIN, theme=THEMES[0])) as rig:
        return await painted(rig)


async def painted(rig: Rig) -> tuple[str, list[str]]:
    wrong = faults(rig.app)
    stills = {}
    for theme in THEMES:
        rig.app.theme = theme
        await rig.settle()
        stills[theme] = take(rig.app)
    first, *others = stills.values()
    wrong += [f"other characters under {THEMES[1]}" for other in others if other.lines != first.lines]
    return written(first, stills.items()), wrong


def written(still: Still, themed: Iterable[tuple[str, Still]]) -> str:
    """The file."""
    parts = [f"{line}\n" for line in still.lines]
    for theme, one in themed:
        parts.append(f"── {theme}\n")
        parts += [f"{line}\n" for line in _looks(one)]
    return "".join(parts)


def _looks(still: Still) -> Iterator[str]:
    letters: dict[str, str] = {}
    names = ("".join(letter) for size in count(1) for letter in product(string.ascii_letters, repeat=size))
    rows = []
    for row in still.rows:
        for _, looks in row:
            if looks not in letters:
                letters[looks] = next(names)
        rows.append(" ".join(f"{letters[looks]}{cell_len(text)}" for text, looks in row))
    yield from (f"{letter} = {looks}" for looks, letter in letters.items())
    for looks, alike in groupby(enumerate(rows), key=lambda numbered: numbered[1]):
        numbers = [number for number, _ in alike]
        where = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        yield f"{where:>5}  {looks}"


def difference(kept: str, now: str, name: str) -> str:
    """Both, line by line; the characters come first. Empty where they are the same."""
    lines = unified_diff(kept.splitlines(), now.splitlines(), f"{name} as it is kept", f"{name} now", n=2, lineterm="")
    return "\n".join(lines)


async def make(scenes: Sequence[Scene]) -> None:
    for scene in scenes:
        directory = SNAPSHOTS / scene.name
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.iterdir():
            if old not in {file_of(scene, size) for size in scene.sizes}:
                old.unlink()
        for size in scene.sizes:
            text, wrong = await snapshot(scene, size)
            file_of(scene, size).write_text(text)
            for fault in wrong:
                print(f"{scene.name} {size[0]}x{size[1]}: {fault}", file=sys.stderr)


def clear(known: Sequence[Scene]) -> None:
    """Away with what no scene makes any more."""
    for directory in SNAPSHOTS.iterdir() if SNAPSHOTS.exists() else ():
        if directory.name not in {scene.name for scene in known}:
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()


if __name__ == "__main__":
    clear(SCENES)
    asyncio.run(make([scene for scene in SCENES if not sys.argv[1:] or scene.name in sys.argv[1:]]))
