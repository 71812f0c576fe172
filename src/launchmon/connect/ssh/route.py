"""Logging in to a host, through others where the configuration says so, and what it takes to trust each of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from launchmon.connect.ssh import config, errors, hosts
from launchmon.connect.ssh.hosts import Entry
from launchmon.connect.ssh.login import Login, Questions
from launchmon.connect.ssh.proxy import Proxy
from launchmon.connect.ssh.settings import Settings, resolve

CLOSE_S = 5.0
KEEPALIVE_S, KEEPALIVES = 5, 3
"""A link on which nothing comes back is given up after 20 s."""

MOST_JUMPS = 8

LOST = (asyncssh.Error, OSError)
"""What asyncssh raises when a connection is gone, or cannot be made."""

T = TypeVar("T")

logging.getLogger("asyncssh").addHandler(logging.NullHandler())  # else its warnings are written over the screen


class Route:
    """Connections one through the other, the last of which leads to the target. Whoever makes one closes it."""

    def __init__(self, questions: Questions) -> None:
        self._connections: list[asyncssh.SSHClientConnection] = []
        self._proxies: list[Proxy] = []
        self._questions = questions
        self._jumps = 0

    @property
    def connection(self) -> asyncssh.SSHClientConnection:
        return self._connections[-1]

    async def connect(self, spec: str, *, through_last: bool = False) -> Settings:
        """Log in, through the hosts that the configuration names or else through the last connection.

        Raises :class:`Refused`.
        """
        address = config.address(spec)
        try:
            settings = await asyncio.to_thread(resolve, address)
        except (ValueError, *LOST) as error:
            raise errors.unusable(address, error) from None
        if not through_last:
            for place, jump in enumerate(settings.jumps):
                self._jumps += 1
                if self._jumps > MOST_JUMPS:
                    raise errors.unusable(address, ValueError("ProxyJump leads in a circle"))
                await self.connect(jump.strip(), through_last=place > 0)
            through_last = bool(settings.jumps)
        try:
            connection = await self._login(settings, through_last)
        except _NotTrusted as stranger:
            await self._settle_trust(settings, stranger.key)
            connection = await self._login(settings, through_last)
        self._connections.append(connection)
        return settings

    async def close(self) -> None:
        """The last first, since it goes through the others."""
        for connection in reversed(self._connections):
            connection.close()
            try:
                await asyncio.wait_for(connection.wait_closed(), CLOSE_S)
            except asyncio.TimeoutError:
                connection.abort()
        for proxy in self._proxies:
            await proxy.end()

    async def _login(self, settings: Settings, through_last: bool) -> asyncssh.SSHClientConnection:
        """Raises :class:`Refused`, and :class:`_NotTrusted` for the key of a stranger."""
        login = Login(settings, self._questions)
        proxy = None
        try:
            if settings.proxy_command is not None and not through_last:
                proxy = await Proxy.start(settings.proxy_command)
            tunnel = self.connection if through_last else None
            known = await asyncio.to_thread(settings.known.find, _name(settings))
            identities = await asyncio.to_thread(lambda: settings.agent_identities)
            connecting = _connecting(settings, login, tunnel, proxy, _kinds(settings, known), identities)
            connection = await self._patiently(connecting, settings.connect_s)
        except BaseException as error:
            complaint = "" if proxy is None else await proxy.end()
            if isinstance(error, asyncio.TimeoutError):
                raise errors.silent(settings, login) from None
            if isinstance(error, (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed)):
                raise _distrust(settings, login, error) from None
            if isinstance(error, (ValueError, *LOST)):
                raise errors.failed(settings, login, error, complaint) from None
            raise
        if proxy is not None:
            self._proxies.append(proxy)
        return connection

    async def _patiently(self, connecting: Awaitable[T], seconds: float) -> T:
        """Wait for so long, not counting the time for which a person is asked. Raises :class:`asyncio.TimeoutError`."""
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(connecting)
        begun = loop.time()
        try:
            while True:
                since = loop.time() if self._questions.waiting else max(begun, self._questions.answered_at)
                left = since + seconds - loop.time()
                if left <= 0:
                    raise asyncio.TimeoutError
                if (await asyncio.wait({task}, timeout=left))[0]:
                    return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _settle_trust(self, settings: Settings, key: asyncssh.SSHKey) -> None:
        """Ask whether the key of a stranger is the right one. Raises :class:`Refused` unless somebody says yes."""
        host, name = settings.address.host, _name(settings)
        where = host if host == name else f"{host} ({name})"
        through = f", reached through {', '.join(settings.jumps)}," if settings.jumps else ""
        question = (
            f"{where}{through} is not among your known hosts. Its key is\n{hosts.fingerprint(key)}\n"
            "Connect, and know it by this key from now on?"
        )
        if not await self._questions.confirm(question):
            raise errors.unknown(settings, key)
        hashed = await asyncio.to_thread(config.hashes_known_hosts)
        settings.known.accept(name, key, hashed=hashed)


class _NotTrusted(Exception):
    """The host showed a key that is in no file, nor is another of it."""

    def __init__(self, key: asyncssh.SSHKey) -> None:
        super().__init__("unknown host key")
        self.key = key


def _connecting(
    settings: Settings,
    login: Login,
    tunnel: asyncssh.SSHClientConnection | None,
    proxy: Proxy | None,
    kinds: Sequence[str],
    identities: Sequence[bytes] | None,
) -> Awaitable[asyncssh.SSHClientConnection]:
    return asyncssh.connect(
        settings.address.host,
        () if settings.address.port is None else settings.address.port,
        username=settings.user,
        config=list(config.files()),
        tunnel=tunnel,
        sock=None if proxy is None else proxy.sock,
        proxy_command=None,
        client_factory=lambda: login,
        known_hosts=_trusted(settings),
        server_host_key_algs=kinds,
        client_keys=iter(()),  # all of them come from the login; an empty list means the default ones
        client_certs=[],
        agent_identities=identities,
        **({"agent_path": None} if identities == [] else {}),
        agent_forwarding=False,
        gss_delegate_creds=False,
        x11_forwarding=False,
        env=None,
        send_env=None,
        request_pty=False,
        compression_algs=["none", "zlib@openssh.com"],  # what matters is packed already
        connect_timeout=None,  # the route counts, and not while a person thinks
        login_timeout=0,
        keepalive_interval=KEEPALIVE_S,
        keepalive_count_max=KEEPALIVES,
    )


def _kinds(settings: Settings, known: Sequence[Entry]) -> Sequence[str]:
    """The kinds of host keys that are offered to talk about: those that are known first, but not them alone.

    By itself asyncssh would offer those alone, and a host that has none of them any longer would end the connection
    before it has shown what it has instead.
    """
    keys = [entry.key for entry in known if not entry.marker]
    if not keys or not settings.any_host_key:
        return ()
    certified = get_default_certificate_algs() if any(entry.marker == "cert-authority" for entry in known) else []
    kinds = [*certified, *(kind for key in keys for kind in key.sig_algorithms), *get_default_public_key_algs()]
    return [kind.decode("ascii") for kind in dict.fromkeys(kinds)]


def _distrust(settings: Settings, login: Login, error: Exception) -> Exception:
    """What an untrusted host key means: that of a stranger, one that has changed, or one that was revoked."""
    name = _name(settings)
    entries = settings.known.find(name)
    if "revoked" in str(error):
        revoked = [entry for entry in entries if entry.marker == "revoked"]
        return errors.revoked(settings, revoked[0]) if revoked else errors.failed(settings, login, error)
    known = [entry for entry in entries if not entry.marker]
    if known and (login.presented is not None or "host key" in str(error)):
        same_kind = [entry for entry in known if login.presented and entry.key.algorithm == login.presented.algorithm]
        return errors.changed(settings, name, login.presented, (same_kind or known)[0])
    if login.presented is None:
        return errors.failed(settings, login, error)
    return _NotTrusted(login.presented)


def _name(settings: Settings) -> str:
    """What known_hosts calls it. An alias stands for the port too."""
    if settings.known_as is not None:
        return hosts.name(settings.known_as, None)
    return hosts.name(settings.host, settings.port)


def _trusted(settings: Settings) -> Any:
    """Known hosts as asyncssh asks for them: by the name it connects to, which may have been made canonical."""

    def find(host: str, address: str, port: int | None) -> Any:  # noqa: ARG001 - a name is trusted, not an address
        return settings.known.trusted(host, None if settings.known_as is not None else port)

    return find
