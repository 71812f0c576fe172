"""Recordings as files on this machine: of a run directory, alone, or in the archive of a report."""

from __future__ import annotations

import gzip
import os
import re
import tarfile
from collections.abc import Iterator
from typing import IO, cast

from launchmon_agent.errors import Refused
from launchmon_agent.runs.readable import readable_lines

MOST = 1 << 30
"""Bytes of events that are read: a compressed file may say anything."""

_PART = re.compile(r"^events(?:-(?P<number>\d{4,}))?(?P<thin>\.thin)?\.jsonl(?P<gz>\.gz)?$")


def run_directory(path: str) -> str | None:
    """The directory of a run that this path is, or lies in; None for any other file."""
    folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
    inside = os.path.isdir(path) or _PART.match(os.path.basename(path)) is not None
    return folder if inside and os.path.isfile(os.path.join(folder, "run.json")) else None


def read_lines(path: str) -> list[bytes]:
    """The lines of a recording. Where a file of it is damaged, a notice stands in place of what cannot be read.

    Raises :class:`Refused`, also when nothing can be read.
    """
    if not os.path.exists(path):
        raise Refused(f"there is no {path}", "", "launchmon runs    # lists the runs that have a recording")
    parts = _parts(path) if os.path.isdir(path) else [path]
    return list(_limited(readable_lines((part, _lines(part)) for part in parts)))


def _lines(path: str) -> Iterator[bytes]:
    """Of one file."""
    if path.endswith((".tar.gz", ".tgz")):
        yield from _of_archive(path)
    elif path.endswith(".gz"):
        with cast("IO[bytes]", gzip.open(path, "rb")) as file:
            yield from file
    else:
        with open(path, "rb") as file:
            yield from file


def _of_archive(path: str) -> Iterator[bytes]:
    """Of the report's archive. Nothing is unpacked into files."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isfile() and os.path.basename(member.name) == "events.jsonl":
                    file = archive.extractfile(member)
                    if file is not None:
                        yield from file
                        return
    except tarfile.TarError as error:
        raise OSError(str(error)) from None
    raise Refused(f"{path} holds no recording", "there is no events.jsonl in it", "launchmon runs")


def _parts(folder: str) -> list[str]:
    """Files of events in order of time, one for each number: thinned before compressed before plain."""
    found: dict[tuple[bool, int], tuple[bool, bool, str]] = {}
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise Refused(f"{folder} cannot be read", error.strerror or str(error)) from None
    for name in names:
        match = _PART.match(name)
        if match:
            key = (match["number"] is None, int(match["number"] or 0))  # the part without a number is the newest
            rank = (match["thin"] is not None, match["gz"] is not None, os.path.join(folder, name))
            found[key] = max(found.get(key, rank), rank)
    if not found:
        raise Refused(f"{folder} holds no recording", "there is no events.jsonl in it", "launchmon runs")
    return [found[key][2] for key in sorted(found)]


def _limited(lines: Iterator[bytes]) -> Iterator[bytes]:
    total = 0
    for line in lines:
        total += len(line)
        if total > MOST:
            raise Refused("this recording is too large to be looked at", f"it holds more than {MOST >> 30} GiB")
        yield line
