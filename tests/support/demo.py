"""A running demo server: started at high speed, watched through its log, never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from launchmon.demo.gpus import VARIABLE
from tests.support.ports import free_port
from tests.support.waiting import until

SOURCE = Path(__file__).resolve().parents[2] / "src"
READY = "The server is fired up and ready to roll!"


class DemoServer:
    """``directory`` gets the log, the report of the GPUs, and the demo's own temporary files. ``program``: the words
    that begin its command, Python last."""

    def __init__(
        self, directory: Path, *flags: str, port: int | None = None, program: Sequence[str] = (sys.executable,)
    ) -> None:
        self.port = free_port() if port is None else port
        self.log_path = directory / "server.log"
        self.gpu_path = directory / "gpus.json"
        self.temporary = directory / "tmp"
        self.temporary.mkdir(parents=True)
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(self.temporary)}
        environment[VARIABLE] = str(self.gpu_path)
        argv = [*program, "-m", "launchmon.demo.launch_server", "--model-path", "demo/kimi-k2.5"]
        argv += ["--port", str(self.port), *flags]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def lines(self) -> list[str]:
        """Refreshes of a bar count as lines."""
        return re.split(r"[\r\n]+", self.log)

    def wait_for(self, text: str, seconds: float = 60) -> None:
        until(lambda: text in self.log or self.process.poll() is not None, seconds)
        assert text in self.log, self.log[-3000:]

    def wait_for_ranks(self, count: int, text: str, seconds: float = 60) -> None:
        """Until so many ranks have written the line."""
        until(lambda: self.log.count(text) >= count or self.process.poll() is not None, seconds)
        assert self.log.count(text) == count, self.log[-3000:]

    def exit_status(self, seconds: float = 30) -> int:
        return self.process.wait(seconds)

    def titles(self) -> dict[str, psutil.Process]:
        """Title → process, of the launcher's children that have one."""
        named = {command_of(child): child for child in psutil.Process(self.process.pid).children()}
        return {title: child for title, child in named.items() if title.startswith("sglang::")}

    def survivors(self) -> list[psutil.Process]:
        """Live processes of the server's session: orphans keep it. Its number may be another's by now."""
        return [process for process in psutil.process_iter() if self._lives_in_session(process)]

    def _lives_in_session(self, process: psutil.Process) -> bool:
        try:
            if os.getsid(process.pid) != self.process.pid or process.status() == psutil.STATUS_ZOMBIE:
                return False
            return process.environ().get("TMPDIR") == str(self.temporary)
        except (ProcessLookupError, psutil.NoSuchProcess):
            return False

    def gpus(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.gpu_path.read_text())["gpus"]
        return found

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and parsed answer (None when empty)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, answer = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, answer = error.code, error.read()
        return status, json.loads(answer) if answer else None

    def end(self) -> None:
        """Whatever still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for survivor in self.survivors():
            with contextlib.suppress(psutil.NoSuchProcess):  # ranks follow their launcher by themselves
                survivor.kill()
        until(lambda: not self.survivors())


def command_of(process: psutil.Process) -> str:
    """Empty for one that has just ended: a child that starts the driver does not live long."""
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.NoSuchProcess:
        return ""
