"""Which machine a run lives on, as a person says it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from launchmon_agent.errors import Refused


@dataclass(frozen=True)
class Target:
    """``kind`` is ``local``, ``ssh`` or ``via``; ``spec`` is what the person typed for the last two."""

    kind: str = "local"
    spec: str = ""

    @property
    def label(self) -> str:
        """For people: "this machine", "root@gpu7", "docker exec -i sgl"."""
        return self.spec if self.spec else "this machine"

    @property
    def options(self) -> tuple[str, ...]:
        """As every verb takes it: ``("--on", "root@gpu7")``; empty for this machine."""
        return {"local": (), "ssh": ("--on", self.spec), "via": ("--via", self.spec)}[self.kind]


LOCAL = Target()


def ssh(spec: str) -> Target:
    """``[user@]host[:port]``, or an alias of the SSH configuration. Raises :class:`Refused`."""
    if (
        not spec
        or spec.startswith("-")
        or any(character.isspace() or not character.isprintable() for character in spec)
    ):
        raise Refused(f"{spec!r} is not a host", "", "launchmon attach --on user@host")
    return Target("ssh", spec)


def via(prefix: str) -> Target:
    """Any command that runs a command with a pipe. Raises :class:`Refused`."""
    try:
        words = shlex.split(prefix)
    except ValueError as error:
        raise Refused(f"--via {prefix!r} cannot be split into words", str(error), "") from None
    if not words:
        raise Refused("--via needs a command", "", "launchmon attach --via 'docker exec -i NAME'")
    return Target("via", prefix)
