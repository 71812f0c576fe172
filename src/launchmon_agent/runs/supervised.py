"""Servers that something else would start again, or that end with their container: not ours to relaunch."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from launchmon_agent.errors import Refused
from launchmon_agent.sensors import proc
from launchmon_agent.sglang.flags.change import command_line

_UNIT = re.compile(r"/(?P<unit>[^/]+\.service)$")
_NO_SERVERS = re.compile(
    r"^(user@\d+|sshd?|ssh@.*|sshd@.*|crond?|containerd|docker|dropbear|getty@.*|tmux.*)\.service$"
)
"""Services below which a person's own commands run."""

_CONTAINER = re.compile(r"(?:docker|cri-containerd|crio|libpod)[-/](?P<id>[0-9a-f]{12,64})")


def refuse_supervised(pid: int, argv: Sequence[str]) -> None:
    """Raises :class:`Refused` with what to use instead for a server of a systemd unit or of a container."""
    groups = _groups(pid)
    theirs = proc.namespace(pid, "mnt")
    line = command_line(argv, {})
    if theirs is not None and theirs != proc.namespace("self", "mnt"):
        match = _CONTAINER.search(groups)
        name = match["id"][:12] if match else "CONTAINER"
        raise Refused(
            f"Process {pid} runs in a container, and is not relaunched from outside",
            "its command belongs to the container, which ends with its first process",
            f"docker rm -f {name} and docker run it again with the changed command: {line}",
        )
    if pid == 1:
        raise Refused(
            "The server is the first process of its container, which would end with it",
            "the container's own command has to be changed",
            f"start the container again with: {line}",
        )
    unit = unit_of(groups)
    if unit is not None and unit != unit_of(_groups(os.getpid())):
        user = "--user " if "/user@" in groups else ""
        raise Refused(
            f"Process {pid} belongs to {unit}, and systemd would start it again",
            "a service is changed in its unit",
            f"systemctl {user}edit --full {unit} && systemctl {user}restart {unit}",
        )


def unit_of(groups: str) -> str | None:
    """The service in the text of ``/proc/PID/cgroup``; None for a login session, a terminal, or none at all."""
    for row in groups.splitlines():
        match = _UNIT.search(row)
        if match and not _NO_SERVERS.match(match["unit"]):
            return match["unit"]
    return None


def _groups(pid: int) -> str:
    return (proc.read(f"{proc.PROC}/{pid}/cgroup") or b"").decode("utf-8", "replace")
