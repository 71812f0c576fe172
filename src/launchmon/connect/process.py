"""A channel through a child process: an agent on this machine, or on whatever a command gives a pipe into."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from launchmon.connect import Ending
from launchmon_agent.errors import Refused

READ = 256 * 1024
COMPLAINTS = 64 * 1024
END_S = 5.0


class ProcessChannel:
    """See :class:`launchmon.connect.Channel`. Make one with :meth:`open`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._in = process.stdin
        self._out = process.stdout
        self._complaints = bytearray()
        self._listening = asyncio.create_task(self._keep_complaints(process.stderr))

    @classmethod
    async def open(cls, argv: Sequence[str]) -> ProcessChannel:
        """Start a command. Raises :class:`Refused` when it cannot be started."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # A Ctrl-C in the terminal is the client's to handle. And without a controlling terminal a program that
                # wants a password (sudo, ssh) fails and says so, instead of writing over the screen.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Refused(f"{argv[0]} cannot be started on this machine: {why}", "", f"command -v {argv[0]}") from None
        return cls(process)

    async def read(self) -> bytes:
        try:
            return await self._out.read(READ)
        except ConnectionError:
            return b""

    def write(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._in.write(data)

    async def drain(self) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self._in.drain()

    async def close(self) -> Ending:
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._in.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await asyncio.wait({self._listening}, timeout=END_S)  # a grandchild may hold stderr open
        self._listening.cancel()
        return Ending(self._process.returncode, self._complaints.decode("utf-8", "replace").strip())

    async def _keep_complaints(self, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(4096):
            self._complaints += part
            del self._complaints[:-COMPLAINTS]
