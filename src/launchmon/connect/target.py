"""Which machine a run lives on, as a person says it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from launchmon_agent.errors import Refused


@dataclass(frozen=True)
class Target:
    """``kind`` is ``local``, ``ssh``, ``via`` or ``slurm``; ``spec`` is what the person typed for the others.

    A ``slurm`` target is a whole job; :func:`launchmon.connect.slurm.nodes` makes it into its nodes.
    """

    kind: str = "local"
    spec: str = ""
    name: str = ""  # of a node, where ``spec`` does not tell it
    step: str = ""  # behind the login of an ``ssh`` target: a command that runs what follows it on the node
    login: Target | None = None  # where Slurm is asked for a job; None: on this machine
    job: Target | None = None  # of which it is a node

    @property
    def label(self) -> str:
        """For people: "this machine", "root@gpu7", "docker exec -i sgl", "job 42"."""
        if self.kind == "slurm":
            return f"job {self.spec}"
        return self.name or self.spec or "this machine"

    @property
    def command(self) -> str:
        """What runs the agent's command there, behind a login if there is one; empty: it is run as it is."""
        return self.spec if self.kind == "via" else self.step

    @property
    def options(self) -> tuple[str, ...]:
        """As every verb takes it: ``("--on", "root@gpu7")``; empty for this machine. Of a node they name its job."""
        if self.job is not None:
            return self.job.options
        if self.kind == "slurm":
            return (*(self.login.options if self.login else ()), "--slurm", self.spec)
        return {"local": (), "ssh": ("--on", self.spec), "via": ("--via", self.spec)}[self.kind]


LOCAL = Target()

_VIA = "launchmon attach --via 'docker exec -i NAME'"


def options_of(targets: Iterable[Target]) -> list[str]:
    """The words that name all of these to a verb."""
    return [word for options in dict.fromkeys(target.options for target in targets) for word in options]


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
        raise Refused(f"--via {prefix!r} cannot be split into words", str(error), _VIA) from None
    if not words:
        raise Refused("--via needs a command", "", _VIA)
    return Target("via", prefix)
