"""What the configuration says about one host, as asyncssh evaluates it, with what asyncssh leaves out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import asyncssh

from launchmon.connect.ssh import config
from launchmon.connect.ssh.config import Address
from launchmon.connect.ssh.hosts import KnownHosts

CONNECT_S = 15
"""Seconds without an answer before a host is given up, where ``ConnectTimeout`` says nothing."""

_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
"""ssh_config(5), IdentityFile."""
_OWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_MACHINES_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True)
class Settings:
    """``jumps``: hosts to go through, in order; ``known_as`` overrides what known_hosts calls it; ``keys``: paths.

    ``any_host_key``: the kinds of host keys are not restricted.
    """

    address: Address
    host: str
    port: int
    user: str
    jumps: tuple[str, ...]
    proxy_command: str | None
    known_as: str | None
    known: KnownHosts
    any_host_key: bool
    keys: tuple[str, ...]
    certificates: tuple[str, ...]
    only_these_keys: bool
    connect_s: float

    @property
    def agent_identities(self) -> list[bytes] | None:
        """With ``IdentitiesOnly``: the public keys that an agent may be asked to sign with. None: all that it has."""
        return [data for path in self.keys for data in _public(path)] if self.only_these_keys else None


def resolve(address: Address) -> Settings:
    """Reads files and may run ``Match exec`` commands: not for the event loop. Raises what asyncssh raises."""
    options = asyncssh.SSHClientConnectionOptions(
        config=list(config.files()),
        host=address.host,
        port=() if address.port is None else address.port,
        username=() if address.user is None else address.user,
        known_hosts=b"",
        client_keys=None,
        client_certs=[],
    )
    if options.config.has_match_final():
        options.update(host=options.host, reload=True, canonical=False, final=True)
    said = options.config
    keys = cast("list[str] | None", said.get("IdentityFile"))
    if keys is None:
        keys = [f"~/.ssh/{name}" for name in _DEFAULT_KEYS]
    # "none" makes an empty list, which asyncssh would take for "check nothing".
    own = cast("Sequence[str]", said.get("UserKnownHostsFile", _OWN_HOSTS))
    others = cast("Sequence[str]", said.get("GlobalKnownHostsFile", _MACHINES_HOSTS))
    jump = cast("str | None", said.get("ProxyJump"))
    return Settings(
        address=address,
        host=options.host,
        port=options.port,
        user=options.username,
        jumps=tuple(jump.split(",")) if jump else (),
        proxy_command=cast("str | None", said.get("ProxyCommand")),
        known_as=cast("str | None", said.get("HostKeyAlias")),
        known=KnownHosts(_expanded(own), _expanded(others)),
        any_host_key=said.get("HostKeyAlgorithms") is None,
        keys=_expanded(keys),
        certificates=_expanded(cast("Sequence[str]", said.get("CertificateFile", ()))),
        only_these_keys=bool(said.get("IdentitiesOnly")),
        connect_s=cast("int", said.get("ConnectTimeout", CONNECT_S)) or CONNECT_S,
    )


def _expanded(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(os.path.expanduser(path) for path in paths)


def _public(path: str) -> list[bytes]:
    """The public halves that belong to an identity file: of the key, and of its certificate."""
    found: list[bytes] = []
    for read, candidate in (
        (asyncssh.read_public_key, f"{path}.pub"),
        (asyncssh.read_public_key, path),
        (asyncssh.read_certificate, f"{path}-cert.pub"),
    ):
        try:
            found.append(read(candidate).public_data)
        except (OSError, ValueError):
            continue
    return found
