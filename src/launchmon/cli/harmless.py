"""What verbs print holds nothing that a terminal obeys, wherever it comes from: a title, a log line, a refusal."""

from __future__ import annotations

import io
import sys

from launchmon_agent.errors import Refused
from launchmon_agent.log.display import printable


class HarmlessText(io.TextIOWrapper):
    """A text stream that shows control characters in place of passing them on; line ends and tabs are kept."""

    def close(self) -> None:
        """The buffer stays open: it is the original stream's, which the screen draws on."""
        self.flush()

    def flush(self) -> None:
        """Raises :class:`Refused` where a disk is full. A reader that has gone away is click's to handle."""
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Refused("what was to be printed could not be written", error.strerror or "", "df -h .") from None

    def write(self, text: str) -> int:
        super().write(harmless(text))
        return len(text)


def harmless(text: str) -> str:
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def guard_streams() -> None:
    """Put such streams in the place of stdout and stderr. What writes to their buffers is not concerned."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, HarmlessText):
            stream.flush()
            guarded = HarmlessText(
                stream.buffer, stream.encoding, "backslashreplace", line_buffering=stream.line_buffering
            )
            setattr(sys, name, guarded)
