"""Why an SSH connection did not come about, for people: what happened, the likely cause, and one command to try."""

from __future__ import annotations

import errno
import re
import shlex
import socket

import asyncssh

from launchmon.connect import Barred
from launchmon.connect.ssh.config import Address
from launchmon.connect.ssh.hosts import DEFAULT_PORT, Entry, fingerprint
from launchmon.connect.ssh.login import Login
from launchmon.connect.ssh.settings import Settings
from launchmon_agent.errors import Refused
from launchmon_agent.log.display import printable


def unusable(address: Address, error: Exception) -> Refused:
    """The configuration cannot be evaluated for this host. asyncssh's message has the file and the line."""
    if isinstance(error, asyncssh.ConfigParseError):
        return Refused("the SSH configuration cannot be used as it is", _text(error), _via(address))
    return Refused(f"the SSH settings for {address.host} cannot be used", _text(error), _via(address))


def unknown(settings: Settings, key: asyncssh.SSHKey) -> Refused:
    """Nobody said yes to the key of a host that is met for the first time."""
    return Barred(
        f"the host key of {settings.address.host} is not known yet",
        f"it is {fingerprint(key)}, and nobody has confirmed it",
        f"{settings.address.command} true",
    )


def changed(settings: Settings, host_name: str, key: asyncssh.SSHKey | None, known: Entry) -> Refused:
    """The host has another key than before. ``key`` None: it has none of that kind any longer."""
    now = f"it is now {fingerprint(key)}" if key is not None else "it has no key of that kind any longer"
    where = f"{known.path} line {known.line}" if known.path else "what was confirmed a moment ago"
    standard = "" if known.path.endswith("/.ssh/known_hosts") else f" -f {shlex.quote(known.path)}"
    return Barred(
        f"the host key of {settings.address.host} has changed: somebody may be in between, or it was reinstalled",
        f"{now}; {where} has {fingerprint(known.key)}",
        f"ssh-keygen -R {shlex.quote(host_name)}{standard}    # only if you know why it changed",
    )


def revoked(settings: Settings, known: Entry) -> Refused:
    return Barred(
        f"the host key of {settings.address.host} has been revoked",
        f"{known.path} line {known.line} says so",
        "ask whoever runs that machine for its new key",
    )


def failed(settings: Settings, login: Login, error: BaseException, complaint: str = "") -> Refused:
    """Anything else that asyncssh or the operating system says while a connection is made.

    ``complaint``: what a ProxyCommand wrote to its stderr.
    """
    host, spec = settings.host, settings.address.host
    where = host if settings.port == DEFAULT_PORT else f"{host} port {settings.port}"
    command = f"{settings.address.command} true"
    if isinstance(error, asyncssh.PermissionDenied):
        return _denied(settings, login)
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return Refused(f"the host key of {spec} cannot be verified", _text(error), command)
    if isinstance(error, asyncssh.ChannelOpenError):
        return Refused(f"{where} cannot be reached through {', '.join(settings.jumps)}", _text(error), command)
    if settings.proxy_command is not None and isinstance(error, (asyncssh.ConnectionLost, OSError)):
        return Refused(f"the ProxyCommand for {spec} gave no connection", complaint or _text(error), command)
    if isinstance(error, asyncssh.ConnectionLost):
        return Refused(f"the connection to {where} ended during the login", _text(error), command)
    if isinstance(error, asyncssh.DisconnectError):
        return Refused(f"{where} cannot be logged in to", _text(error), _via(settings.address))
    if isinstance(error, socket.gaierror):
        return Refused(f"there is no host {host}", error.strerror or "the name is not known", f"getent hosts {host}")
    if isinstance(error, OSError):
        return _unreachable(where, error, command)
    return Refused(f"{where} cannot be logged in to", _text(error), _via(settings.address))


def silent(settings: Settings, login: Login | None) -> Refused:
    """Nothing came for as long as is waited."""
    said = f"; it said: {login.banner}" if login is not None and login.banner else ""
    return Refused(
        f"{settings.host} port {settings.port} did not answer within {settings.connect_s:.0f} s",
        f"it is down, or a firewall drops the connection, or it waits for something{said}",
        f"{settings.address.command} true",
    )


def no_command(settings: Settings, error: BaseException) -> Refused:
    """Logged in, but no command can be started there."""
    return Refused(
        f"{settings.address.host} starts no command",
        _text(error) or "the connection ended",
        _via(settings.address),
    )


def _denied(settings: Settings, login: Login) -> Refused:
    who = f"{settings.user}@{settings.address.host}"
    if login.locked is not None:
        return Barred(
            f"{who} let nobody in: permission denied",
            f"the key {login.locked} is encrypted, and nobody gave its passphrase",
            f"ssh-add {shlex.quote(login.locked)}",
        )
    tried = "; ".join(login.tried) if login.tried else "no key or password was there to try"
    return Barred(f"{who} let nobody in: permission denied", f"tried: {tried}", _via(settings.address))


def _unreachable(where: str, error: BaseException, command: str) -> Refused:
    text = _text(error)
    # Several addresses of one name fail as one error without a number of its own.
    numbers = {int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error))}
    if isinstance(error, ConnectionRefusedError) or numbers == {errno.ECONNREFUSED}:
        return Refused(f"{where} refused the connection", "no SSH server listens there", command)
    return Refused(f"{where} cannot be reached", text, command)


def _via(address: Address) -> str:
    """What asyncssh cannot do, OpenSSH's own client may: hardware keys, ControlMaster, unusual configurations."""
    return f"--via {shlex.quote(address.command)}    # uses ssh itself, with all that it can do"


def _text(error: BaseException) -> str:
    return printable(" ".join(str(error).split()))[:300] or type(error).__name__
