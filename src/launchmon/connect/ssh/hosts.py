"""known_hosts: which key a host is known by, and where that is written.

asyncssh calls an unknown key and a changed one by the same error. This reads the files itself, so that the two can be
told apart and the line that is in the way be named. The format is that of sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT".
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncssh

DEFAULT_PORT = 22


@dataclass(frozen=True)
class Entry:
    """One line. ``marker``: empty, ``cert-authority`` or ``revoked``; ``path``: empty for what was just accepted."""

    key: asyncssh.SSHKey
    marker: str = ""
    path: str = ""
    line: int = 0


def name(host: str, port: int | None) -> str:
    """What a host is called in the files."""
    host = host.lower()
    return host if port in (None, DEFAULT_PORT) else f"[{host}]:{port}"


def fingerprint(key: asyncssh.SSHKey) -> str:
    """``ED25519 SHA256:…``, as ``ssh`` and ``ssh-keygen -l`` write it."""
    kind = key.get_algorithm().removeprefix("ssh-").removesuffix("@openssh.com").removesuffix("-nistp256")
    return f"{kind.removesuffix('-sha2').upper()} {key.get_fingerprint('sha256')}"


@dataclass
class KnownHosts:
    """The files, in the order in which they are searched. Those that are not there hold nothing.

    ``accepted``: keys that the person has said yes to in this conversation, by name.
    """

    own: Sequence[str]
    others: Sequence[str] = ()
    accepted: dict[str, list[Entry]] = field(default_factory=dict)

    def find(self, host_name: str) -> list[Entry]:
        """All entries for a :func:`name`. Lines that cannot be understood are passed over, as OpenSSH does."""
        found = list(self.accepted.get(host_name, ()))
        for path in (*self.own, *self.others):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    found += _entries(path, file.read(), host_name)
            except OSError:
                continue
        return found

    def trusted(
        self, host: str, port: int | None
    ) -> tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]:
        """Keys, keys of certificate authorities, and revoked keys of a host, as asyncssh asks for them.

        Where nothing is known of a port, what is known of the host without it counts, as for OpenSSH.
        """
        found = self.find(name(host, port))
        if not any(entry.marker != "revoked" for entry in found) and port is not None:
            found += self.find(name(host, None))
        return tuple([entry.key for entry in found if entry.marker == marker] for marker in _MARKERS)  # type: ignore[return-value]

    def accept(self, host_name: str, key: asyncssh.SSHKey, *, hashed: bool) -> None:
        """Trust a key from now on, and write it down. Where that fails it is trusted for this time."""
        self.accepted.setdefault(host_name, []).append(Entry(key))
        public = key.export_public_key("openssh").decode("ascii").split()
        line = f"{_hashed(host_name) if hashed else host_name} {public[0]} {public[1]}\n"
        if self.own:
            try:
                _append(self.own[0], line)
            except OSError:
                return


_MARKERS = ("", "cert-authority", "revoked")


def _entries(path: str, text: str, host_name: str) -> list[Entry]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        marker = ""
        fields = line.split(None, 1)
        if len(fields) == 2 and fields[0].startswith("@"):
            marker, fields = fields[0][1:], fields[1].split(None, 1)
        if (
            len(fields) != 2
            or fields[0].startswith("#")
            or marker not in _MARKERS
            or not _matches(fields[0], host_name)
        ):
            continue
        try:
            key = asyncssh.import_public_key(fields[1])
        except asyncssh.KeyImportError:
            continue
        found.append(Entry(key, marker, path, number))
    return found


def _matches(patterns: str, host_name: str) -> bool:
    if patterns.startswith("|1|"):
        salt, _, digest = patterns[3:].partition("|")
        try:
            return hmac.compare_digest(_digest(base64.b64decode(salt), host_name), base64.b64decode(digest))
        except ValueError:
            return False
    matched = False
    for pattern in patterns.lower().split(","):
        if not fnmatch.fnmatchcase(host_name, pattern.removeprefix("!").replace("[", "[[]")):
            continue
        if pattern.startswith("!"):
            return False
        matched = True
    return matched


def _hashed(host_name: str) -> str:
    salt = secrets.token_bytes(20)
    return "|1|" + "|".join(base64.b64encode(part).decode("ascii") for part in (salt, _digest(salt, host_name)))


def _digest(salt: bytes, host_name: str) -> bytes:
    return hmac.new(salt, host_name.encode(), hashlib.sha1).digest()


def _append(path: str, line: str) -> None:
    """One write to the end of the file; on a line of its own, whatever the file ended with."""
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (("\n" if torn else "") + line).encode())
    finally:
        os.close(descriptor)
