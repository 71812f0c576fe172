"""The person's OpenSSH configuration: which files, which hosts they name, and how a host is written.

asyncssh evaluates the configuration for one host (``ssh_settings``); this is what can be said without a host. Pure but
for reading the files, and without asyncssh, which takes half a second to import.
"""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from launchmon_agent.errors import Refused

SYSTEM_FILE = "/etc/ssh/ssh_config"
MOST_BYTES = 1 << 20
DEEPEST = 16
"""How many files may include each other: OpenSSH's ``READCONF_MAX_DEPTH``."""


@dataclass(frozen=True)
class Address:
    """A host as a person writes it; ``host`` may be an alias of the configuration. None: left to that."""

    host: str
    user: str | None = None
    port: int | None = None

    @property
    def command(self) -> str:
        """What a person types to log in there with OpenSSH."""
        login = self.host if self.user is None else f"{self.user}@{self.host}"
        port = "" if self.port is None else f"-p {self.port} "
        return f"ssh {port}{shlex.quote(login)}"


def address(spec: str) -> Address:
    """From ``[user@]host[:port]`` or ``[user@][v6]:port``, as an URI too. Raises :class:`Refused`."""
    user, at, rest = spec.removeprefix("ssh://").rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, bracket, port = rest[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise Refused(f"{spec!r} is not a host", "a bracket is missing", "launchmon attach --on 'user@[::1]:22'")
        port = port[1:]
    elif rest.count(":") == 1:  # more are an IPv6 address
        host, _, port = rest.partition(":")
    if not host or host.startswith("-") or (at and not user):
        raise Refused(f"{spec!r} is not a host", "", "launchmon attach --on user@host")
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise Refused(
            f"{spec!r} has no valid port", f"{port!r} is not between 1 and 65535", "launchmon attach --on user@host:22"
        )
    return Address(host, user or None, int(port) if port else None)


def files() -> tuple[str, ...]:
    """Those that can be read, the person's own before the machine's: the first value of a keyword counts."""
    return tuple(path for path in (os.path.expanduser("~/.ssh/config"), SYSTEM_FILE) if os.access(path, os.R_OK))


def listed_hosts() -> list[str]:
    """The hosts that the configuration names one by one, in its order; no patterns, and nothing that is no host."""
    hosts: dict[str, None] = {}
    for path in files():
        for keyword, words in _lines(path):
            if keyword == "host":
                hosts.update(dict.fromkeys(word for word in words if _is_host(word)))
    return list(hosts)


def _is_host(word: str) -> bool:
    return word.isprintable() and not word.startswith("-") and not set(word) & set(" *?!,")


def hashes_known_hosts() -> bool:
    """``HashKnownHosts``, as it is said first anywhere: in doubt a name is better hidden than not."""
    for path in files():
        for keyword, words in _lines(path):
            if keyword == "hashknownhosts" and words:
                return words[0].lower() in ("yes", "true")
    return False


def _lines(path: str, within: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Keyword in small letters and words of each line, those of included files in their place."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_BYTES)
    except OSError:
        return
    for line in text.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        if not words:
            continue
        keyword, equals, value = words[0].partition("=")
        values = ([value] if value else []) + words[1:]
        if not equals and values and values[0].startswith("="):
            values = ([values[0][1:]] if values[0] != "=" else []) + values[1:]
        if keyword.lower() != "include":
            yield keyword.lower(), values
        elif len(within) < DEEPEST:
            base = os.path.dirname(SYSTEM_FILE) if path.startswith("/etc/") else os.path.expanduser("~/.ssh")
            for value in values:
                for included in sorted(glob.glob(os.path.join(base, os.path.expanduser(value)))):
                    if included not in (path, *within):
                        yield from _lines(included, (path, *within))
