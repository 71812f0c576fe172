"""Ways to reach an agent: a channel of bytes for each kind of target, and one pipe of lines over any of them.

``target`` says which machine; ``process`` and ``ssh`` give a :class:`Channel` there; ``pipe`` starts an agent over it;
``opening`` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from launchmon_agent.errors import Refused


@dataclass(frozen=True)
class Ending:
    """How the command behind a channel ended. ``status`` None: it was not told. ``complaints``: its stderr, cleaned."""

    status: int | None = None
    complaints: str = ""


class Barred(Refused):
    """There is no way to the target, and waiting makes none: its host key has changed, or it lets nobody in."""


class Channel(Protocol):
    """stdin and stdout of a command on the target."""

    async def read(self) -> bytes:
        """The next bytes, at least one; ``b""`` at the end. Never raises for a link that broke."""

    def write(self, data: bytes) -> None:
        """Send. To a command that is gone it does nothing: reading tells."""

    async def drain(self) -> None:
        """Wait until most of what was written has left. Returns at once when the command is gone."""

    async def close(self) -> Ending:
        """Close stdin, wait until the command is gone, and say how it ended. May be called twice."""


class Pipe(Protocol):
    """A two-way stream of JSON lines to an agent."""

    @property
    def target(self) -> str:
        """The machine at the other end, for people: "this machine", "root@gpu7"."""

    @property
    def received(self) -> int:
        """Bytes so far: a long line that comes slowly is a sign of life too."""

    async def read_line(self) -> bytes:
        """The next line with its newline; ``b""`` when the agent is gone."""

    def write_line(self, line: bytes) -> None:
        """Send a line. Sending to an agent that is gone does nothing: reading tells."""

    async def end(self) -> str:
        """Close the pipe, wait until the agent is gone, and say how it ended ("" when as it should)."""


class Asker(Protocol):
    """Puts the questions of a login to a person. There may be nobody."""

    async def ask(self, prompt: str, *, secret: bool) -> str | None:
        """The answer; None when nobody can, or wants to, give one. A ``secret`` one is not shown while typed."""

    async def confirm(self, question: str) -> bool:
        """False when nobody can answer."""


class Nobody:
    """The :class:`Asker` of scripts."""

    async def ask(self, prompt: str, *, secret: bool) -> str | None:  # noqa: ARG002 - the protocol's names
        return None

    async def confirm(self, question: str) -> bool:  # noqa: ARG002
        return False
