"""An agent on this machine: a child process with pipes, started the same way as over SSH."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from launchmon.connect.bundle import agent_zip
from launchmon_agent.boot import STUB
from launchmon_agent.errors import Refused
from launchmon_agent.wire import MAX_LINE

END_S = 5.0


class LocalPipe:
    """See :class:`launchmon.connect.Pipe`. Make one with :meth:`open`."""

    target = "this machine"

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._in = process.stdin
        self._out = process.stdout
        self._complaints = bytearray()
        self._listening = asyncio.create_task(self._keep_complaints(process.stderr))

    @classmethod
    async def open(cls, interpreter: str = sys.executable) -> LocalPipe:
        """Start an agent. Raises :class:`Refused` when the interpreter cannot be started."""
        try:
            process = await asyncio.create_subprocess_exec(
                interpreter,
                "-c",
                STUB,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE,
                start_new_session=True,  # a Ctrl-C in the terminal is the client's to handle
            )
        except OSError as error:
            raise Refused(f"the agent cannot be started with {interpreter}", str(error)) from None
        pipe = cls(process)
        code = agent_zip()
        pipe.write_line(b"%d\n" % len(code))
        pipe.write_line(code)
        return pipe

    async def read_line(self) -> bytes:
        try:
            return await self._out.readline()
        except (ValueError, ConnectionError):
            return b""

    def write_line(self, line: bytes) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._in.write(line)

    async def end(self) -> str:
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._in.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except asyncio.TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await self._listening
        if self._process.returncode == 0:
            return ""
        said = self._complaints.decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else f"the agent ended with status {self._process.returncode}"

    async def _keep_complaints(self, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(4096):
            self._complaints += part
            del self._complaints[:-65536]
