"""What can be read of the files of a recording, with a notice in place of what cannot."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator

from launchmon_agent.codec import Malformed, decode, encode
from launchmon_agent.errors import Refused
from launchmon_agent.events import Notice

DAMAGED = (OSError, EOFError, zlib.error)
"""What reading a part raises that is not there, or a compressed one that is cut short or was written over."""


def readable_lines(parts: Iterable[tuple[str, Iterator[bytes]]]) -> Iterator[bytes]:
    """``parts``: path and lines of each file, in order of time. A file that is not there is passed over.

    A notice has the time of the last event before it, or of the first after it. Raises :class:`Refused` at the end when
    files are damaged and nothing could be read.
    """
    newest: float | None = None
    line, untold = b"", list[str]()
    for path, lines in parts:
        count = 0
        try:
            for line in lines:
                count += 1
                if untold and (newest := _time(line)) is not None:
                    yield from (_notice(newest, what) for what in untold)
                    untold.clear()
                yield line
        except FileNotFoundError:
            continue
        except DAMAGED as error:
            extent = f"can be read up to its line {count}" if count else "cannot be read"
            untold.append(f"{os.path.basename(path)} {extent}: {error}")
        at = _time(line)
        newest = newest if at is None else at
        if newest is not None:
            yield from (_notice(newest, what) for what in untold)
            untold.clear()
    if untold:
        raise Refused("nothing of this recording can be read", "; ".join(untold))


def _notice(at: float, what: str) -> bytes:
    return encode(Notice(at, source="recording", text=what))


def _time(line: bytes) -> float | None:
    with contextlib.suppress(Malformed):
        return decode(line).at
    return None
