"""A ProxyCommand: a program of the person's own that gives the bytes of a connection.

asyncssh can start one itself, but not by a shell, and takes what it writes to stderr for bytes of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

from launchmon.connect.process import end_it, let_go
from launchmon_agent.log.display import printable

COMPLAINTS = 4096


class Proxy:
    """Made by :meth:`start`. ``sock`` is our end, for asyncssh to use and to close."""

    def __init__(self, process: asyncio.subprocess.Process, sock: socket.socket) -> None:
        assert process.stderr is not None
        self.sock = sock
        self._process = process
        self._complaints = bytearray()
        self._listening = asyncio.create_task(self._listen(process.stderr))

    @classmethod
    async def start(cls, command: str) -> Proxy:
        """Raises :class:`OSError`."""
        ours, its = socket.socketpair()
        try:
            with its:
                process = await asyncio.create_subprocess_exec(
                    "sh",
                    "-c",
                    f"exec {command}",
                    stdin=its.fileno(),
                    stdout=its.fileno(),
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,  # it asks nothing of the terminal, which the screen draws on
                )
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return cls(process, ours)

    async def end(self) -> str:
        """Stop it with what it has started; the last that it complained of."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGHUP)  # as OpenSSH does
        self.sock.close()
        try:
            await asyncio.wait_for(self._process.wait(), 1)
        except asyncio.TimeoutError:
            end_it(self._process)
        await asyncio.wait({self._listening}, timeout=1)  # what it started may hold its stderr open
        self._listening.cancel()
        await let_go(self._process)
        said = self._complaints.decode("utf-8", "replace").split("\n")
        return next((printable(line.strip()) for line in reversed(said) if line.strip()), "")

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(COMPLAINTS):
            self._complaints += part
            del self._complaints[:-COMPLAINTS]
