"""An agent without a client: a test writes to its pipe and takes the pipe away when it pleases."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from launchmon_agent.errors import Refused

SOURCE = Path(__file__).resolve().parents[2] / "src"
_PROGRAM = "from launchmon_agent.serve import main; main()"


class RawAgent:
    """Speaks the wire format by hand; :attr:`heard` has all messages so far. For ``contextlib.closing``."""

    def __init__(self, *before: str, umask: int = -1, **environ: str) -> None:
        """``before``: a command that runs the agent. ``umask`` -1: ours."""
        self.heard: list[dict[str, Any]] = []
        self._rest = b""
        self._ids = 0
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", _PROGRAM],
            umask=umask,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **environ},
            start_new_session=True,
        )

    def close(self) -> None:
        self.hang_up()
        self.process.wait(60)

    def send(self, do: str, **args: Any) -> int:
        """Ask, and do not wait. Returns the number of the request."""
        self._ids += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": self._ids, "do": do, **args}).encode() + b"\n")
        self.process.stdin.flush()
        return self._ids

    def ask(self, do: str, **args: Any) -> Any:
        """The value of the reply. Raises :class:`Refused` as it says."""
        return self.reply(self.send(do, **args))

    def reply(self, number: int) -> Any:
        answer = self.wait_for(lambda message: message.get("re") == number)
        if "refused" in answer:
            raise Refused.from_json(answer["refused"])
        return answer["value"]

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 60) -> dict[str, Any]:
        """The first message, past or to come, that is wanted."""
        for message in self.heard:
            if wanted(message):
                return message
        return next(message for message in self._messages(seconds) if wanted(message))

    def wait_for_step(self, step: str, state: str | None = None) -> None:
        """Of an action."""
        self.wait_for(lambda one: one.get("kind") == "action" and one["step"] == step and state in (None, one["state"]))

    def hang_up(self) -> None:
        """What an agent sees of a client that is killed: both pipes end, in the middle of whatever it does."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        until = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"it did not come in time; heard {[one.get('kind', one) for one in self.heard[-5:]]}"
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            assert data, "the agent has ended"
            *lines, self._rest = (self._rest + data).split(b"\n")
            fresh = [json.loads(line) for line in lines]
            self.heard += fresh
            yield from fresh
