"""A channel through SSH, by asyncssh: the person's configuration, their keys, their known hosts.

Never: a host key that nobody confirmed (whatever ``StrictHostKeyChecking`` says, which asyncssh does not read), agent
or X11 forwarding, variables for the other side, a terminal there.
"""

from __future__ import annotations

import asyncio
import contextlib

import asyncssh

from launchmon.connect import Asker, Ending
from launchmon.connect.ssh import errors
from launchmon.connect.ssh.login import Questions
from launchmon.connect.ssh.route import LOST, Route
from launchmon_agent.log.display import printable

READ = 256 * 1024
COMPLAINTS = 64 * 1024
END_S = 5.0
"""How long a command may take to end once its stdin is closed."""


class SshChannel:
    """See :class:`launchmon.connect.Channel`. Made by :func:`open_channel`."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], route: Route) -> None:
        self._process = process
        self._route = route
        self._complaints = bytearray()
        self._listening = asyncio.create_task(self._keep_complaints())
        self._ending: Ending | None = None

    async def read(self) -> bytes:
        try:
            return await self._process.stdout.read(READ)
        except LOST:
            return b""

    def write(self, data: bytes) -> None:
        with contextlib.suppress(*LOST):
            self._process.stdin.write(data)

    async def drain(self) -> None:
        with contextlib.suppress(*LOST):
            await self._process.stdin.drain()

    async def close(self) -> Ending:
        if self._ending is None:
            with contextlib.suppress(*LOST):
                self._process.stdin.write_eof()
            with contextlib.suppress(asyncio.TimeoutError, *LOST):
                await asyncio.wait_for(self._process.wait_closed(), END_S)
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            await self._route.close()
            said = self._complaints.decode("utf-8", "replace").strip().splitlines()
            self._ending = Ending(self._process.returncode, "\n".join(map(printable, said)))
        return self._ending

    async def _keep_complaints(self) -> None:
        with contextlib.suppress(*LOST):
            while part := await self._process.stderr.read(4096):
                self._complaints += part
                del self._complaints[:-COMPLAINTS]


async def open_channel(spec: str, command: str, asker: Asker) -> SshChannel:
    """Log in as the person's ``ssh`` would, and run ``command`` by the login shell. Raises :class:`Refused`."""
    route = Route(Questions(asker))
    try:
        settings = await route.connect(spec)
        try:
            starting = route.connection.create_process(command, encoding=None)
            process = await asyncio.wait_for(starting, settings.connect_s)
        except asyncio.TimeoutError:
            raise errors.silent(settings, None) from None
        except LOST as error:
            raise errors.no_command(settings, error) from None
    except BaseException:
        await route.close()
        raise
    return SshChannel(process, route)
