"""Machines of their own on this one: namespaces for network, processes, mounts and host name, joined by a bridge.

    with Hosts(2) as (first, second):
        first.run("python3", "-m", "http.server")        # a process there, ended with the host
        target.via(first.prefix)                         # and the target that launchmon reaches it by

Needs root. All that runs on a host ends with it, since the first process of its pid namespace does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

import pytest

from tests.support.waiting import until

TOOLS = ("unshare", "nsenter", "ip")

needs_hosts = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, TOOLS)), reason="needs root and namespaces (unshare, nsenter, ip)"
)


class Host:
    """``address`` is its own on the bridge; ``prefix`` a command that runs another one there."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self._outside = subprocess.Popen(
            [
                "unshare",
                *("--net", "--pid", "--mount", "--uts", "--ipc"),
                *("--fork", "--kill-child", "--mount-proc"),
                "sleep",
                "inf",
            ],
            stdin=subprocess.DEVNULL,
        )
        try:
            until(lambda: self._child() is not None)
        except BaseException:
            self.end()
            raise
        self._first = self._child()
        self.prefix = f"nsenter -t {self._first} -n -p -m -u -i"

    @property
    def words(self) -> list[str]:
        return shlex.split(self.prefix)

    @property
    def link(self) -> str:
        """Its end of the cable, seen from the bridge."""
        return f"lmh{self._first}"

    def run(self, *argv: str, **options: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.words, *argv], **options)  # type: ignore[call-overload, no-any-return]

    def check(self, *argv: str) -> str:
        return subprocess.run([*self.words, *argv], check=True, capture_output=True, text=True).stdout

    def plug(self, bridge: str) -> None:
        """Connect it, under :attr:`address`."""
        _ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", str(self._first))
        _ip("link", "set", self.link, "master", bridge, "up")
        self.check("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.check("ip", "link", "set", "eth0", "up")
        self.check("ip", "link", "set", "lo", "up")
        self.check("hostname", self.name)
        self.check("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")  # by which SGLang tells who is on the same node

    def cut(self) -> None:
        """Pull the cable."""
        _ip("link", "set", self.link, "down")

    def mend(self) -> None:
        _ip("link", "set", self.link, "up")

    def end(self) -> None:
        self._outside.kill()
        self._outside.wait()

    def _child(self) -> int | None:
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{self._outside.pid}/task/{self._outside.pid}/children") as file:
                child = int(file.read().split()[0])
            if os.readlink(f"/proc/{child}/ns/net") != os.readlink("/proc/self/ns/net"):
                with open(f"/proc/{child}/comm") as file:
                    return child if file.read().strip() == "sleep" else None
        return None


def _free_net() -> tuple[socket.socket, int]:
    """A number that no other test of this machine has, while the socket is open."""
    for number in range(250):
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(f"\0launchmon-test-net-{number}")
        except OSError:
            held.close()
            continue
        return held, number
    raise OSError("a test has each of the 250 networks")


class Hosts:
    """``count`` hosts named ``node0`` … on a bridge of their own; this machine has the address ``.254`` there."""

    def __init__(self, count: int) -> None:
        self._bridge = f"lmb{os.getpid()}"
        self._held, number = _free_net()
        self._net = f"10.213.{number}"
        self._count = count
        self.hosts: list[Host] = []

    def __enter__(self) -> Sequence[Host]:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("address", "add", f"{self._net}.254/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for number in range(self._count):
                host = Host(f"node{number}", f"{self._net}.{number + 1}")
                self.hosts.append(host)
                host.plug(self._bridge)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self.hosts

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self.hosts:
            host.end()
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._bridge)
        self._held.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
