"""Starts and ends the genuine SGLang of ``setup.py`` for a test, and leaves nothing behind.

A rig is one test's: its own working directory, free ports, and a token in the environment of all that it starts. What
it ends is found by these marks and by the sessions of the processes so found, never by name, and each process is ended
as pid *and* start time (psutil compares both), so a reused pid is never hit.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.support.ports import free_port
from tests.support.waiting import until

HERE = Path(__file__).resolve().parent
READY_LINE = b"The server is fired up and ready to roll!"
TOKEN = "LAUNCHMON_RIG"
MOST_RANKS = 4
"""SGLang wants a core named for each rank; naming more does no harm, and a small machine runs no more ranks."""


class Server:
    """One server started by hand, as a person would: ``argv > log 2>&1``, in a session of its own."""

    def __init__(self, argv: Sequence[str], env: dict[str, str], cwd: Path, log: Path, port: int) -> None:
        self.argv = tuple(argv)
        self.log = log
        self.port = port
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                self.argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for(self, text: bytes, seconds: float = 300) -> float:
        """Waits until the log holds ``text`` and gives the time when it was seen. Fails when the server ends before."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self.process.poll()  # before the look at the log, which must see the last words
            if text in self.log.read_bytes():
                return time.time()
            if ended is not None:
                raise AssertionError(f"the server ended with {ended} before {text!r}; its last lines:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} within {seconds:.0f} s; the last lines:\n{self.tail()}")
            time.sleep(0.1)

    def wait_ready(self, seconds: float = 300) -> float:
        return self.wait_for(READY_LINE, seconds)

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def ranks(self) -> dict[str, int]:
        """Rank tag → pid, by SGLang's process titles: ``sglang::scheduler_DP1_TP0``; an untagged one is ``TP0``."""
        out = {}
        for child in psutil.Process(self.pid).children(recursive=True):
            try:
                title = (child.cmdline() or [""])[0]
            except psutil.Error:
                continue
            head, found, tag = title.partition("sglang::scheduler")
            if found and not head:
                out[tag.strip("_").replace("_", " ") or "TP0"] = child.pid
        return out


class Rig:
    """Makes command lines for the real server, starts it, and ends all that came of it."""

    def __init__(self, installation: Path, workdir: Path) -> None:
        self.installation = installation
        self.workdir = workdir
        self.token = secrets.token_hex(8)
        self.sessions: set[int] = set()
        self.began = time.time()

    @property
    def python(self) -> Path:
        """The interpreter that runs SGLang."""
        return self.installation / "venv" / "bin" / "python"

    def model(self, name: str = "tiny-llama") -> Path:
        return self.installation / "models" / name

    def changes(self, **more: str) -> dict[str, str]:
        """What a server needs in its environment beside the ordinary one."""
        cores = sorted(os.sched_getaffinity(0))
        core_of_rank = [str(cores[rank % len(cores)]) for rank in range(MOST_RANKS)]
        python_path = [str(HERE / "shim"), os.environ.get("PYTHONPATH", "")]
        return {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(part for part in python_path if part),
            "HF_HUB_OFFLINE": "1",
            "SGLANG_USE_CPU_ENGINE": "1",
            "SGLANG_CPU_OMP_THREADS_BIND": "|".join(core_of_rank),
            TOKEN: self.token,
            **more,
        }

    def command(
        self, *flags: str, port: int | None = None, model: str = "tiny-llama", **env: str
    ) -> tuple[list[str], dict[str, str]]:
        """The command line of a server and its whole environment. Flags given come last, so they win."""
        argv = [str(self.python), "-m", "sglang.launch_server", "--model-path", str(self.model(model))]
        argv += ["--device", "cpu", "--host", "127.0.0.1", "--port", str(port or free_port())]
        argv += ["--max-total-tokens", "4096", "--mem-fraction-static", "0.2", "--max-running-requests", "8", *flags]
        return argv, {**os.environ, "PYTHONUNBUFFERED": "1", **self.changes(**env)}

    def start(self, *flags: str, port: int | None = None, on: Sequence[str] = (), **env: str) -> Server:
        """Starts a server; its output goes to a file of the working directory. ``on``: a command that runs it there."""
        port = port or free_port()
        argv, environment = self.command(*flags, port=port, **env)
        server = Server([*on, *argv], environment, self.workdir, self.workdir / f"server-{port}.log", port)
        self.sessions.add(server.pid)  # which its children keep, also as orphans and under a title that hides the token
        return server

    def watch(self, pid: int) -> None:
        """Takes the session of a process that a test started by other means under the rig's care."""
        self.sessions.add(os.getsid(pid))

    def processes(self) -> list[psutil.Process]:
        """All living processes that are the rig's, without this one and its ancestors."""
        found, by_session = [], []
        spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
        for process in psutil.process_iter():
            if process.pid in spared or not self._may_be_ours(process):
                continue
            try:
                session = os.getsid(process.pid)
            except OSError:
                continue
            if self._is_marked(process):
                found.append(process)
                if session != os.getsid(0):
                    self.sessions.add(session)
            else:
                by_session.append((session, process))
        return found + [process for session, process in by_session if session in self.sessions]

    def _may_be_ours(self, process: psutil.Process) -> bool:
        try:
            # 10 s: the two times come from different clocks
            return process.create_time() >= self.began - 10 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def _is_marked(self, process: psutil.Process) -> bool:
        """It has the token in its environment, or works in the rig's directory."""
        try:
            if process.environ().get(TOKEN) == self.token:
                return True
        except (psutil.Error, OSError):
            pass
        try:
            return Path(process.cwd()).is_relative_to(self.workdir)
        except (psutil.Error, OSError):
            return False

    def end(self, seconds: float = 30) -> None:
        """Ends all that is the rig's. Repeats, since what is being ended may just have started something."""

        def kill_all() -> bool:
            processes = self.processes()
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(processes, timeout=5)
            return not processes

        until(kill_all, seconds)
