"""One command for several nodes → the command of each. Pure."""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Sequence

from launchmon.connect.target import Target
from launchmon_agent.errors import Refused
from launchmon_agent.sglang.command import parse

PORT = 20000
"""Of the rendezvous, where the command does not say. Not the server's own port, nor one near it that SGLang derives."""

_NODES = ("--nnodes",)
_RANK = ("--node-rank",)
_ADDRESS = ("--dist-init-addr", "--nccl-init-addr")
"""The older name is of releases before 0.4."""


def shared_name(argv: Sequence[str], now: float) -> str:
    """By which the run is found on every node, where none was given: its model and the time of day.

    Without an @, which stands for a host.
    """
    model = os.path.basename((parse(argv).model or "").rstrip("/")).replace("@", "-") or "run"
    return f"{model}-{time.strftime('%H%M%S', time.localtime(now))}"


def commands(argv: Sequence[str], targets: Sequence[Target]) -> list[tuple[str, ...]]:
    """The command of each target, in their order: its ``--node-rank``, and the same rest for all.

    Raises :class:`Refused` where the command contradicts the targets, or does not say where node 0 is.
    """
    count = len(targets)
    if _value(argv, _RANK) is not None:
        raise Refused(
            "the command has a --node-rank, and is for several nodes",
            "each node gets its own, in the order of the targets",
            "launchmon launch --on NODE0 --on NODE1 -- … without --node-rank",
        )
    nodes = _value(argv, _NODES)
    if nodes is not None and nodes != str(count):
        raise Refused(f"the command says --nnodes {nodes}, and {count} targets were named", "", "name each node once")
    common = [*argv]
    if nodes is None:
        common += ["--nnodes", str(count)]
    if _value(argv, _ADDRESS) is None:
        common += ["--dist-init-addr", f"{_address(targets[0])}:{PORT}"]
    return [(*common, "--node-rank", str(number)) for number in range(count)]


def _value(argv: Sequence[str], names: Sequence[str]) -> str | None:
    found = None
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else (argv[place + 1] if place + 1 < len(argv) else "")
    return found


def _address(target: Target) -> str:
    """Under which the other nodes reach this one. Only what is an address for everybody will do, not an alias."""
    if target.job is not None:  # Slurm's nodes know each other by these names
        return target.name
    host = target.spec.rpartition("@")[2] if target.kind == "ssh" else ""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    if host.count(":") == 1:
        host = host.partition(":")[0]
    if "." in host or _is_address(host):
        return f"[{host}]" if ":" in host else host
    raise Refused(
        f"it is not known at which address the other nodes reach {target.label}",
        "the command has no --dist-init-addr, and the target is no address or full host name",
        f"add --dist-init-addr ADDRESS:{PORT} to the command, with an address of node 0",
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
