"""A launched witness in a state directory of its own, and what has to be true of it whatever happens around it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import ProcessId, RunDirectory, RunFile
from launchmon_agent.runs.sockets import answers
from launchmon_agent.sensors import proc
from tests.support.ports import free_port
from tests.support.raw_agent import RawAgent
from tests.support.waiting import until
from tests.support.witness import Witness


class FaultRig:
    """``home`` is the directory of all: ``state``, ``run`` (sockets) and ``notes`` (of the witness)."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for name in ("state", "run", "notes", "cache"):
            (home / name).mkdir(mode=0o700)
        self.environ = {
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "XDG_CACHE_HOME": str(home / "cache"),
        }
        self.witness = Witness(home / "notes")

    @property
    def root(self) -> str:
        return directory.state_root(self.environ)

    def start_agent(self, *before: str, umask: int = -1, **environ: str) -> RawAgent:
        return RawAgent(*before, umask=umask, **{**self.environ, **environ})

    def agent(self, *before: str, umask: int = -1, **environ: str) -> contextlib.closing[RawAgent]:
        """In a ``with``: its client leaves at the end."""
        return contextlib.closing(self.start_agent(*before, umask=umask, **environ))

    def plan(self, *flags: str) -> dict[str, Any]:
        """Arguments of a ``launch``. Without the hook: its signal would be one that the witness notes."""
        return {"argv": self.witness.command(*flags, port=free_port()), "without": ["hook"]}

    def launch(self, agent: RawAgent, *flags: str) -> RunDirectory:
        """A run that writes, followed by this agent."""
        run = agent.ask("launch", **self.plan(*flags))
        place = RunDirectory(os.path.join(self.root, run["id"]))
        self.until_it_writes(place)
        return place

    # --- what is there

    def runs(self) -> list[RunDirectory]:
        """Newest first."""
        return [place for place, _ in directory.runs(self.root)]

    def servers(self) -> list[int]:
        """Launchers of witnesses that live, written down or not."""
        notes = str(self.witness.notes)
        found = (row.pid for row in proc.table().values() if not row.dead and row.session == row.pid)
        return [pid for pid in found if notes in proc.cmdline(pid)]

    def keepers(self) -> list[int]:
        """Keepers that live, of these runs."""
        home = f"XDG_STATE_HOME={self.environ['XDG_STATE_HOME']}".encode()
        named = [row.pid for row in proc.table().values() if row.comm == "launchmon-keep" and not row.dead]
        return [pid for pid in named if home in (proc.read(f"/proc/{pid}/environ") or b"").split(b"\0")]

    def file(self, place: RunDirectory) -> RunFile:
        file = place.read()
        assert file is not None
        return file

    def server(self, place: RunDirectory) -> ProcessId:
        server = self.file(place).server
        assert server is not None
        return server

    def keeper(self, place: RunDirectory) -> ProcessId:
        keeper = self.file(place).keeper
        assert keeper is not None
        return keeper

    def log(self, place: RunDirectory) -> bytes:
        return Path(place.log).read_bytes() if os.path.exists(place.log) else b""

    # --- to happen

    def kill_keeper(self, place: RunDirectory) -> ProcessId:
        keeper = self.keeper(place)
        os.kill(keeper.pid, signal.SIGKILL)
        until(lambda: not proc.alive(keeper.pid, keeper.start_time))
        return keeper

    # --- to be true

    def until_it_writes(self, place: RunDirectory) -> None:
        until(lambda: self.log(place).count(b"\n") > 2)

    def assert_unharmed(self, place: RunDirectory, server: ProcessId | None = None) -> None:
        """It lives, nobody has sent it anything or stopped it, and it goes on writing without a gap."""
        server = server or self.server(place)
        for row in [found for found in proc.table().values() if found.session == server.pid and not found.dead]:
            assert row.state not in "tT", f"process {row.pid} is stopped"
        assert proc.alive(server.pid, server.start_time)
        assert self.witness.signals == []
        if os.path.exists(place.log):
            size = len(self.log(place))
            until(lambda: len(self.log(place)) > size)
            self.witness.assert_whole(self.log(place))

    def assert_kept(self, place: RunDirectory) -> None:
        """One keeper, no more, has it, and answers."""
        until(lambda: self.file(place).socket is not None and answers(str(self.file(place).socket)))
        assert self.keepers() == [self.keeper(place).pid]

    def assert_followed_to_the_end(self, place: RunDirectory) -> None:
        """Another client sees the same log, can end the run, and then nothing of it is left."""
        with self.agent() as agent:
            run = agent.ask("attach", run=place.id)
            assert run["pid"] == self.server(place).pid
            window = agent.ask("window", at=0, before=0, after=200)
            self.witness.assert_whole("".join(line["text"] + "\n" for line in window["lines"]))
            assert agent.ask("kill", force=True)["leftovers"] == []
        assert not [row for row in proc.table().values() if row.session == run["pid"] and not row.dead]

    def end(self) -> None:
        """All of it, whatever has become of it."""
        for number in (signal.SIGTERM, signal.SIGKILL):  # asked first: it takes its socket away
            for pid in self.keepers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            with contextlib.suppress(AssertionError):
                until(lambda: not self.keepers())
        for server in self.servers():
            for row in proc.table().values():
                if row.session == server and not row.dead:
                    with contextlib.suppress(ProcessLookupError):  # ranks follow their launcher by themselves
                        os.kill(row.pid, signal.SIGKILL)
        until(lambda: not self.servers() and not self.keepers())
        shutil.rmtree(self.home, ignore_errors=True)


@contextmanager
def fault_rig() -> Iterator[FaultRig]:
    rig = FaultRig(Path(tempfile.mkdtemp(prefix="lm-fault-")))
    try:
        yield rig
    finally:
        rig.end()
