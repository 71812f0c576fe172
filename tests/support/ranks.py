"""Real processes that stand for ranks: each runs a Python program of the test and is ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from launchmon_agent.events import Process, Run
from launchmon_agent.sensors import proc
from tests.support.waiting import until

RUN = Run(0.0, id="test", tp=8)


class Ranks:
    """Starts processes and knows them as the process sensor would."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self.python = sys.executable
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        who: str,
        code: str,
        *,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        spins: bool = False,
    ) -> Process:
        """``code`` says that it has come to its place by ``there()``, and sleeps or ``spins`` then; this returns then.

        Equal code is one file, as it is for ranks. ``prefix``: a program that runs the interpreter.
        """
        said = self.workdir / f"{who}.there"
        script = self.workdir / f"rank_{zlib.crc32(code.encode()):08x}.py"
        script.write_text("import sys\ndef there():\n    open(sys.argv[1], 'w').close()\n" + code)
        self.children[who] = subprocess.Popen(
            [*prefix, self.python, str(script), str(said)], env=env, cwd=self.workdir, stdin=subprocess.DEVNULL
        )
        until(lambda: said.exists() or self.children[who].poll() is not None)
        until(lambda: spins or self.state(who) in "SZ")
        assert self.children[who].poll() is None, f"{who} ended with {self.children[who].returncode}"
        return self.process(who)

    def process(self, who: str) -> Process:
        child = self.children[who]
        began = proc.start_time(child.pid)
        assert began is not None
        role = who if who == "launcher" else "scheduler"
        return Process(child.pid, began, role, rank=None if who == "launcher" else who)

    @property
    def processes(self) -> list[Process]:
        return [self.process(who) for who in self.children]

    def state(self, who: str) -> str:
        found = proc.stat(self.children[who].pid)
        return "gone" if found is None else found.state

    def stop(self, who: str) -> None:
        os.kill(self.children[who].pid, signal.SIGSTOP)
        until(lambda: self.state(who) == "T")


@contextmanager
def ranks(workdir: Path) -> Iterator[Ranks]:
    made = Ranks(workdir)
    try:
        yield made
    finally:
        for child in made.children.values():
            child.kill()
            child.wait()
