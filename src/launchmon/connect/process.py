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
REAPED_TRIES = 100
"""Looks, a hundredth of a second apart, whether the status of a killed child is known. One that is asleep in the kernel
may not end at all: it is not waited for."""


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
            end_it(self._process)
        await asyncio.wait({self._listening}, timeout=END_S)  # a grandchild may hold stderr open
        self._listening.cancel()
        await let_go(self._process)
        return Ending(self._process.returncode, self._complaints.decode("utf-8", "replace").strip())

    async def _keep_complaints(self, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(4096):
            self._complaints += part
            del self._complaints[:-COMPLAINTS]


def end_it(process: asyncio.subprocess.Process) -> None:
    """Kill a child that has not ended. The wait for one that has may still go on, and its number be another's."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


async def let_go(process: asyncio.subprocess.Process) -> None:
    """Close the pipes of a child that has ended or was killed.

    asyncio does so itself only when both have come to their end, and until then waits for the child (3.10 to 3.13,
    ``base_subprocess.py``); but a grandchild may hold them, or nobody read on.
    """
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]  # noqa: SLF001
    for _ in range(REAPED_TRIES):  # closing asks for the status too, and would take it from whoever waits for it
        if process.returncode is not None:
            break
        await asyncio.sleep(0.01)
    to_child = transport.get_pipe_transport(0)
    if isinstance(to_child, asyncio.WriteTransport) and to_child.get_write_buffer_size():
        to_child.abort()  # closing it would wait until all is written
    transport.close()
    if process.returncode is not None:
        await process.wait()
    await asyncio.sleep(0)  # in which the pipes are closed
