"""Ways to reach an agent. Each gives a :class:`Pipe`: lines out, lines in, and why it ended."""

from __future__ import annotations

from typing import Protocol


class Pipe(Protocol):
    """A two-way stream of JSON lines to an agent."""

    @property
    def target(self) -> str:
        """The machine at the other end, for people: "this machine", "root@gpu7"."""

    async def read_line(self) -> bytes:
        """The next line with its newline; ``b""`` when the agent is gone."""

    def write_line(self, line: bytes) -> None:
        """Send a line. Sending to an agent that is gone does nothing: reading tells."""

    async def end(self) -> str:
        """Close the pipe, wait until the agent is gone, and say how it ended ("" when as it should)."""
