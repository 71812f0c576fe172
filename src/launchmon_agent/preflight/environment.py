"""Variables, interfaces, ports and means that lead a launch astray, or leave it unexplained. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from launchmon_agent.judge.remedies import PROXIES
from launchmon_agent.judge.words import listed
from launchmon_agent.preflight.finding import ERROR, NOTE, WARNING, Finding
from launchmon_agent.preflight.start import Start

LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PORTS_AFTER_DIST = 13
"""Attention DP takes ports from the rendezvous port on, up to this far (srt/server_args.py, PortArgs)."""
LOOKS = {
    "gpus": "the GPUs",
    "model": "the model's files",
    "orphans": "processes of earlier launches",
    "locks": "locks of builds",
    "ptrace": "whether stacks can be read",
}
"""Looks that may take long, as a person calls them."""


def _proxy(start: Start) -> Iterator[Finding]:
    """The warm-up is plain HTTP to the server's own address, through whatever the variables say (requests)."""
    host = start.command.host
    names = [name for name in PROXIES if start.env.get(name) and not name.lower().startswith("https")]
    exempt = [part.strip() for name in ("no_proxy", "NO_PROXY") for part in start.env.get(name, "").split(",")]
    passed_by = any(_is_exempt(host, part) for part in exempt if part)
    if not names or passed_by or "--skip-server-warmup" in start.command.flags:
        return
    wanted = list(dict.fromkeys(("127.0.0.1", "localhost", host)))
    yield Finding(
        "proxy",
        WARNING,
        f"{listed(names)} {'is' if len(names) == 1 else 'are'} set, and {host} is not exempt",
        "the server's own warm-up request would go through the proxy, and never arrive",
        f"--env no_proxy={','.join(wanted)}",
    )


def _is_exempt(host: str, part: str) -> bool:
    """Whether one entry of ``no_proxy`` covers a host: ``*``, a name or its end, an address or a network of them."""
    if part == "*" or host == part or host.endswith("." + part.lstrip(".")):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(part, strict=False)
    except ValueError:
        return False


def _inherited(start: Start) -> Iterator[Finding]:
    names = [name for name in LAUNCHER_VARIABLES if start.env.get(name)]
    if names:
        yield Finding(
            "inherited",
            WARNING,
            f"{listed(names)} {'is' if len(names) == 1 else 'are'} set",
            "by another launcher (torchrun, accelerate, SLURM); ranks may wait for peers that do not exist",
            "env " + " ".join(f"-u {name}" for name in names) + " launchmon launch …",
        )


def _interfaces(start: Start) -> Iterator[Finding]:
    if start.facts.interfaces is None:
        return
    gloo = start.env.get("GLOO_SOCKET_IFNAME", "")
    wrong = [name for name in gloo.split(",") if name and name not in start.facts.interfaces]
    if wrong:
        syntax = " (^ and = are NCCL's, not Gloo's)" if gloo[:1] in ("^", "=") else ""
        yield Finding(
            "gloo-interface",
            ERROR if start.command.tp * start.command.pp * start.command.dp > 1 else WARNING,
            f"GLOO_SOCKET_IFNAME={gloo}: there is no interface {wrong[0]}{syntax}",
            f"here are {listed(sorted(start.facts.interfaces))}",
            f"--env GLOO_SOCKET_IFNAME={_likely(start.facts.interfaces)}",
        )
    nccl = start.env.get("NCCL_SOCKET_IFNAME", "")
    if nccl and not any(_nccl_takes(nccl, name) for name in start.facts.interfaces):
        yield Finding(
            "nccl-interface",
            ERROR if start.command.tp * start.command.pp > 1 and start.device != "cpu" else WARNING,
            f"NCCL_SOCKET_IFNAME={nccl} leaves no interface",
            f"here are {listed(sorted(start.facts.interfaces))}",
            f"--env NCCL_SOCKET_IFNAME={_likely(start.facts.interfaces)}",
        )


def _nccl_takes(pattern: str, name: str) -> bool:
    """NCCL's syntax: a list of beginnings; ``=`` for whole names, ``^`` for all others (NCCL's guide)."""
    excluded = pattern.startswith("^")
    rest = pattern.removeprefix("^")
    exact = rest.startswith("=")
    names = [one for one in rest.removeprefix("=").split(",") if one]
    matches = any(name == one if exact else name.startswith(one) for one in names)
    return not matches if excluded else matches


def _nodes(start: Start) -> Iterator[Finding]:
    if start.command.nnodes == 1:
        return
    address = start.command.dist_init_addr
    if address is None:
        yield Finding(
            "dist-init-addr",
            ERROR,
            f"{start.command.nnodes} nodes, and no --dist-init-addr",
            "the nodes have no place to meet",
            "--dist-init-addr HEAD_NODE:20000",
        )
    elif address.rpartition(":")[0] in ("127.0.0.1", "localhost") and start.command.node_rank > 0:
        yield Finding(
            "dist-loopback",
            WARNING,
            f"--dist-init-addr {address} is this machine itself",
            "node 0 is met there only if it runs here too",
            "--dist-init-addr HEAD_NODE:PORT",
        )
    if start.facts.host_name_is_loopback and not start.env.get("GLOO_SOCKET_IFNAME"):
        yield Finding(
            "host-name",
            WARNING,
            "This machine's own name stands for 127.0.… in /etc/hosts",
            "Gloo tells the other nodes to connect there, and they find themselves",
            "--env GLOO_SOCKET_IFNAME=DEVICE    # that of: ip route get HEAD_NODE",
        )


def _ports(start: Start) -> Iterator[Finding]:
    server, meeting = start.command.port, (start.command.dist_init_addr or "").rpartition(":")[2]
    if server is not None and meeting.isdigit() and 0 <= server - int(meeting) <= PORTS_AFTER_DIST:
        yield Finding(
            "near-ports",
            WARNING,
            f"The rendezvous port {meeting} is close to the server's {server}",
            "SGLang takes further ports from the rendezvous port on",
            f"--dist-init-addr …:{server - 1000 if server > 2024 else server + 1000}",
        )


def _preload(start: Start) -> Iterator[Finding]:
    if start.env.get("LD_PRELOAD"):
        yield Finding(
            "ld-preload",
            NOTE,
            f"LD_PRELOAD={start.env['LD_PRELOAD']}",
            "what is loaded into every process is the first suspect of a hang",
            "env -u LD_PRELOAD launchmon launch …    # if it hangs",
        )


def _stacks(start: Start) -> Iterator[Finding]:
    if start.facts.py_spy is False:
        yield Finding(
            "py-spy",
            NOTE,
            "py-spy is not found",
            "SGLang's watchdog then dies without the stacks that it means to print",
            "pip install py-spy",
        )
    if start.facts.ptrace is not None:
        yield Finding(
            "ptrace",
            NOTE,
            "Stacks cannot be read from outside here",
            start.facts.ptrace.cause + "; a run that launchmon launches writes them itself",
            start.facts.ptrace.try_,
        )


def _late(start: Start) -> Iterator[Finding]:
    for name in start.facts.late:
        yield Finding("late", NOTE, f"Not seen in time: {LOOKS[name]}", "a file system or a driver answers slowly")


def _likely(interfaces: frozenset[str]) -> str:
    """An interface that may lead to other machines."""
    return next((name for name in sorted(interfaces) if not name.startswith(("lo", "docker", "veth", "br-"))), "lo")


CHECKS = (_proxy, _inherited, _interfaces, _nodes, _ports, _preload, _stacks, _late)
