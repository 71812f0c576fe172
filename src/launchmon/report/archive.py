"""The files of a report: Markdown to paste, and one archive with that, the recording and all stacks."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import tarfile
from collections.abc import Mapping

from launchmon.report.gather import Material
from launchmon.report.markdown import markdown, stacks
from launchmon_agent.errors import Refused

MARKDOWN, ARCHIVE = ".md", ".tar.gz"


def stem(path: str) -> str:
    """``-o`` without the endings that the two files get."""
    return next((path[: -len(end)] for end in (ARCHIVE, MARKDOWN, ".tgz") if path.endswith(end)), path)


def default_stem(material: Material) -> str:
    """``launchmon-report-20261129-180541-kimi``."""
    run = material.model.run
    name = "run" if run is None else run.id
    tidy = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in name)
    return f"launchmon-report-{tidy.strip('.-') or 'run'}"


def free_stem(stem: str) -> str:
    """The stem, with a number where its files exist already."""
    for number in itertools.count(1):
        found = stem if number == 1 else f"{stem}-{number}"
        if not any(os.path.lexists(found + end) for end in (MARKDOWN, ARCHIVE)):
            break
    return found


def write(material: Material, stem: str) -> tuple[str, str]:
    """Writes ``STEM.md`` and ``STEM.tar.gz``, readable for their owner alone; returns both paths.

    Raises :class:`Refused` where one of them exists or cannot be written, and leaves neither.
    """
    if not os.path.basename(stem):
        raise Refused(f"{stem!r} names no file", "", "launchmon report -o NAME")
    stem = os.path.abspath(os.path.expanduser(stem))
    name = os.path.basename(stem)
    text = markdown(material, name + ARCHIVE)
    files = {
        stem + MARKDOWN: _encoded(text),
        stem + ARCHIVE: archive(material, name, text),
    }
    written: list[str] = []
    try:
        for path, data in files.items():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            written.append(path)
            with open(descriptor, "wb") as file:
                file.write(data)
    except FileExistsError:
        _remove(written)
        raise Refused(f"{path} exists already", "", "another name with -o") from None
    except OSError as error:
        _remove(written)
        raise Refused(f"{path} could not be written", error.strerror or str(error), "another place with -o") from None
    return stem + MARKDOWN, stem + ARCHIVE


def archive(material: Material, name: str, text: str) -> bytes:
    """The same bytes for the same material: times are the recording's, owners are nobody."""
    members = {
        "report.md": _encoded(text),
        "events.jsonl": b"".join(material.lines),
        "stacks.txt": _encoded(stacks(material.model)),
    }
    return _packed({f"{name}/{member}": data for member, data in members.items()}, int(material.model.now))


def _encoded(text: str) -> bytes:
    """A path may hold bytes that are no UTF-8."""
    return text.encode(errors="backslashreplace")


def _packed(members: Mapping[str, bytes], at: int) -> bytes:
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, data in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(data), max(0, at), 0o600
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _remove(paths: list[str]) -> None:
    for path in paths:
        os.unlink(path)
