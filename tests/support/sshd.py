"""A real OpenSSH server on the loopback, and the home of a person who may log in there.

    with ClientHome(tmp_path / "home") as home, Sshd(tmp_path / "box", home) as box:
        home.add_host("box", box)  # then the target "box" works, as does box.spec

What a login finds on the "target" (its HOME, its state, the Python of this environment first on PATH) is in the
server's own directory, so that tests leave nothing in the home of whoever runs them.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import psutil
import pytest

from tests.support.ports import free_port
from tests.support.waiting import until

PROGRAM = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Debian's sshd wants it when it is started by root."""

USER = getpass.getuser()

needs_sshd = pytest.mark.skipif(PROGRAM is None, reason="no sshd is installed (openssh-server)")


class ClientHome:
    """A HOME with ``.ssh/config``, ``.ssh/known_hosts`` and a key, in force (``$HOME``) inside the ``with``."""

    def __init__(self, directory: Path) -> None:
        self.path = directory
        self.ssh = directory / ".ssh"
        self.ssh.mkdir(parents=True, mode=0o700)
        self.config = self.ssh / "config"
        self.known_hosts = self.ssh / "known_hosts"
        self.key = make_key(self.ssh / "id_ed25519")
        self.config.write_text(f"IdentityFile {self.key}\nIdentitiesOnly yes\n")
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> ClientHome:  # noqa: PYI034 - Python 3.10 has no Self
        self._patch.setenv("HOME", str(self.path))
        self._patch.delenv("SSH_AUTH_SOCK", raising=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def add_host(self, alias: str, server: Sshd, *lines: str, trusted: bool = True) -> None:
        """Put an alias for the server into the configuration; ``lines`` go before the rest of its block."""
        block = [f"Host {alias}", *lines, f"HostName {server.address}", f"Port {server.port}", f"User {USER}"]
        self.config.write_text("\n".join([*block, "Host *", self.config.read_text()]))
        if trusted:
            self.trust(server)

    def trust(self, server: Sshd) -> None:
        """Know the server's key already."""
        with self.known_hosts.open("a") as out:
            out.write(f"[{server.address}]:{server.port} {server.host_key}\n")


class Sshd:
    """``sshd -D`` in the foreground; every login is logged. Stopped with all its logins at the end of the ``with``.

    ``lines`` go into sshd_config before all others, where the first value of a keyword counts. ``prefix``: a command
    that runs another one in the namespaces that have ``address``.
    """

    def __init__(
        self,
        directory: Path,
        home: ClientHome,
        lines: Sequence[str] = (),
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        prefix: Sequence[str] = (),
    ) -> None:
        assert PROGRAM is not None, "see needs_sshd"
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.address = address
        self.port = port or free_port(address)
        self.login_home = directory / "login-home"
        self.login_home.mkdir(mode=0o700)
        self.sockets = Path(tempfile.mkdtemp(prefix="lm-"))  # a short path, since a socket's is limited
        self.authorized_keys = directory / "authorized_keys"
        self.authorized_keys.write_text(home.key.with_suffix(".pub").read_text())
        self.log_path = directory / "log"
        self._config = directory / "sshd_config"
        self._key = make_key(directory / "host_key")
        self._lines = list(lines)
        self._prefix = tuple(prefix)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Sshd:  # noqa: PYI034 - Python 3.10 has no Self
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)

    @property
    def spec(self) -> str:
        """For ``--on``, without any alias."""
        return f"{USER}@{self.address}:{self.port}"

    @property
    def host_key(self) -> str:
        """Type and key in base64."""
        return " ".join(self._key.with_suffix(".pub").read_text().split()[:2])

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def state_home(self) -> Path:
        """``$XDG_STATE_HOME`` of those who log in."""
        return self.login_home / "state"

    def change_key(self) -> None:
        """Another host key, as after a reinstallation. Counts from the next :meth:`start`."""
        make_key(self._key)

    def start(self) -> None:
        """Listen, on the same port as before."""
        assert PROGRAM is not None
        if os.geteuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self._config.write_text("\n".join([*self._lines, *self._defaults()]) + "\n")
        with self.log_path.open("ab") as log:
            argv = [*self._prefix, PROGRAM, "-D", "-e", "-f", str(self._config)]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._listens)

    def stop(self) -> None:
        """Close the port and end every login: what a reboot of the network stack looks like from outside."""
        if self._process is None:
            return
        logins = self.logins()
        self._process.terminate()
        self._process.wait()
        self._process = None
        self._end(logins)

    def cut(self) -> None:
        """End every login, and go on listening."""
        self._end(self.logins())

    def logins(self) -> list[psutil.Process]:
        """The processes of this sshd that serve a connection; what they run for people is not among them."""
        if self._process is None:
            return []
        children = psutil.Process(self._process.pid).children(recursive=True)
        return [child for child in children if _name(child) == "sshd"]

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        return f"Server listening on {self.address} port {self.port}" in self.log.rpartition("Received signal")[2]

    def _end(self, logins: Sequence[psutil.Process]) -> None:
        for process in logins:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(logins, timeout=5)

    def _defaults(self) -> list[str]:
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        env = {"PATH": path, "HOME": self.login_home, "XDG_STATE_HOME": self.state_home}
        env["XDG_RUNTIME_DIR"] = self.sockets
        return [
            f"ListenAddress {self.address}:{self.port}",
            f"HostKey {self._key}",
            f"AuthorizedKeysFile {self.authorized_keys}",
            f"PidFile {self.directory / 'pid'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PrintMotd no",
            "AllowTcpForwarding yes",
            "MaxStartups 100",
            "SetEnv " + " ".join(f"{name}={value}" for name, value in env.items()),
        ]


def make_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    """A key pair at ``path`` and ``path.pub``, in place of what was there."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return path


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""
