"""The log in the person's own pager: the file itself where it is on this machine, else the part around the screen."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from launchmon_agent.errors import Refused

AROUND = 1000
"""Lines before and behind the top of the screen that are fetched from another machine: as many as one window has."""


@dataclass(frozen=True)
class Document:
    """A file to page through, and where: ``offset`` in bytes."""

    path: str
    offset: int


def pager(environment: Mapping[str, str]) -> list[str]:
    """``$PAGER`` as words, else less or more. Raises :class:`Refused` where there is none."""
    chosen = environment.get("PAGER", "").strip()
    try:
        words = shlex.split(chosen) if chosen else [name for name in ("less", "more") if shutil.which(name)][:1]
    except ValueError as error:
        raise Refused(f"$PAGER cannot be read: {error}", f"it is {chosen!r}") from None
    if not words:
        raise Refused("there is no pager", "neither less nor more is installed", "set PAGER")
    return words


def command(words: Sequence[str], document: Document) -> list[str]:
    """What to run. less goes to the place at once, however large the file is; other pagers begin at its start."""
    place = [f"+{document.offset}P"] if os.path.basename(words[0]) == "less" else []
    return [*words, *place, "--", document.path] if place else [*words, document.path]


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """The pager's environment: less shows the control sequences of a log, also where ``$LESS`` asks to obey them."""
    return {**environment, "LESS": f"{environment.get('LESS', '')} -+r".strip()}


@contextlib.contextmanager
def private(lines: Sequence[str], top: int) -> Iterator[Document]:
    """The lines as a file that only this user can read, for as long as the context lasts; ``top`` is one of them."""
    with tempfile.TemporaryDirectory(prefix="launchmon-") as folder:
        path = os.path.join(folder, "log.txt")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        yield Document(path, sum(len(line.encode()) + 1 for line in lines[:top]))


def show(words: Sequence[str], document: Document, environment: Mapping[str, str]) -> None:
    """Run the pager on this terminal until it ends. Raises :class:`Refused` where it cannot be started."""
    try:
        subprocess.run(command(words, document), env=surroundings(environment), check=False)
    except OSError as error:
        raise Refused(f"{words[0]} cannot be started", error.strerror or str(error), "set PAGER") from None


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Meanwhile ^C is the pager's (it stops less at following a file) and does not end launchmon."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)  # a handler is not inherited, "ignore" would be
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
