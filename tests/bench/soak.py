"""A genuine SGLang that serves under load for a long time, watched: ``python -m tests.bench.soak --minutes 60``.

Launched through launchmon, with a keeper, and looked at by the real screen in a pseudo-terminal and by a session of
this process. Every few seconds it notes what the keeper, the screen and the screen's agent hold and burn, how far the
picture is behind the clock, and the verdict. In the end memory must be flat, nothing may have drifted, and no verdict
may have been given but ``ready`` and ``serving``. Needs the SGLang that ``python tests/real/setup.py`` installs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from launchmon.session import Session
from launchmon_agent.runs import directory
from tests.real import setup
from tests.real.rig import Rig
from tests.support.client import agent, eventually, verdict

READY_S = 300.0
EVERY_S = 2.0
CLIENTS = 2
RIGHT = frozenset({"ready", "serving"})
MOST_GROWTH = 0.05
MOST_GROWTH_MIB = 3.0
"""From the second quarter of the time to the last: the larger of the two is still called flat."""
MOST_BEHIND_S = 5.0
SCREEN = {"LINES": "40", "COLUMNS": "120"}


@dataclass
class Watched:
    """One process of launchmon over the time."""

    process: psutil.Process
    mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def look(self) -> None:
        with self.process.oneshot():
            self.mib.append(self.process.memory_info().rss / 2**20)
            self.cpu_s.append(sum(self.process.cpu_times()[:2]))
        self.files.append(self.process.num_fds())

    @property
    def quarters(self) -> tuple[float, float]:
        """MiB in the second and in the last quarter: the first is for what is loaded and cached once."""
        part = max(1, len(self.mib) // 4)
        return statistics.median(self.mib[part : 2 * part] or self.mib), statistics.median(self.mib[-part:])

    @property
    def grew(self) -> bool:
        early, late = self.quarters
        return late - early > max(MOST_GROWTH_MIB, MOST_GROWTH * early)


@dataclass
class Soak:
    """What was seen."""

    seconds: float
    watched: dict[str, Watched] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    behind_s: list[float] = field(default_factory=list)
    answers: int = 0
    failures: int = 0
    log_bytes: int = 0

    def problems(self) -> list[str]:
        out = [
            f"{name} grew from {one.quarters[0]:.1f} to {one.quarters[1]:.1f} MiB"
            for name, one in self.watched.items()
            if one.grew
        ]
        out += [
            f"{name} had {one.files[len(one.files) // 4]} files open, then {one.files[-1]}"
            for name, one in self.watched.items()
            if one.files[-1] > one.files[len(one.files) // 4] + 4
        ]
        out += [f"the verdict was {kind} {times} times" for kind, times in self.verdicts.items() if kind not in RIGHT]
        if max(self.behind_s) > MOST_BEHIND_S:
            out.append(f"the picture was {max(self.behind_s):.1f} s behind the clock")
        if not self.answers or self.failures:
            out.append(f"{self.answers} requests were answered, {self.failures} failed: this was no load")
        return out

    def table(self) -> str:
        lines = [
            f"{self.seconds / 60:.1f} minutes, {self.answers} requests answered, log {self.log_bytes / 1e6:.1f} MB"
        ]
        for name, one in self.watched.items():
            early, late = one.quarters
            burnt = 100 * (one.cpu_s[-1] - one.cpu_s[0]) / self.seconds
            lines.append(
                f"{name:<10}{early:7.1f} → {late:5.1f} MiB, at most {max(one.mib):5.1f}{burnt:7.2f} % of a core"
                f"   files {one.files[0]} → {one.files[-1]}"
            )
        lines.append(
            f"picture behind the clock: {statistics.median(self.behind_s):.1f} s, at most {max(self.behind_s):.1f} s"
        )
        lines.append(f"verdicts: {dict(self.verdicts)}")
        return "\n".join(lines)


async def soak(rig: Rig, seconds: float, flags: Sequence[str] = ()) -> Soak:
    """Launch, load and watch for so many seconds from the moment that the server is ready; then end it."""
    argv, _ = rig.command(*flags)
    seen = Soak(seconds)
    async with agent() as session:
        run = await session.launch(argv=list(argv), env=rig.changes(), cwd=str(rig.workdir))
        assert run.pid is not None and run.port is not None
        rig.watch(run.pid)
        await eventually(lambda: verdict(session) in ("ready", "serving", "crashed"), READY_S)
        assert verdict(session) != "crashed", session.model.verdict
        with screen(run.id) as tui, load(run.port, seen):
            await eventually(lambda: len(tui.children()) > 0)
            place = directory.find(run.id)
            file = place.read() if place else None
            assert file is not None and file.keeper is not None
            seen.watched = {
                "keeper": Watched(psutil.Process(file.keeper.pid)),
                "agent": Watched(tui.children()[0]),
                "screen": Watched(tui),
            }
            await watched(session, seen)
        seen.log_bytes = session.model.log.size if session.model.log else 0
        await session.kill()
    return seen


async def watched(session: Session, seen: Soak) -> None:
    end = time.monotonic() + seen.seconds
    while time.monotonic() < end:
        await asyncio.sleep(EVERY_S)
        for one in seen.watched.values():
            one.look()
        seen.verdicts[verdict(session) or "none"] += 1
        sampled = session.model.processes.at if session.model.processes else 0.0
        seen.behind_s.append(time.time() - sampled)


@contextlib.contextmanager
def screen(run: str) -> Iterator[psutil.Process]:
    """``launchmon attach RUN`` in a pseudo-terminal that somebody reads."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path), **SCREEN}
    command = [sys.executable, "-c", "from launchmon.cli import main; main()", "attach", run]
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    try:
        yield psutil.Process(child.pid)
    finally:
        child.kill()
        child.wait()
        os.close(master)


def drain(master: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(master, 1 << 16):
            pass


@contextlib.contextmanager
def load(port: int, seen: Soak) -> Iterator[None]:
    """Clients that ask one thing after the other, of different lengths."""
    stop = threading.Event()
    clients = [threading.Thread(target=ask, args=(port, seen, stop, number), daemon=True) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    try:
        yield
    finally:
        stop.set()
        for one in clients:
            one.join(60)


def ask(port: int, seen: Soak, stop: threading.Event, number: int) -> None:
    turn = number
    while not stop.wait(0.2):
        turn += 1
        body = {
            "text": "word " * (1 + turn % 40),
            "sampling_params": {"max_new_tokens": 1 + turn % 24, "temperature": 0},
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.read()
            seen.answers += 1
        except OSError:
            seen.failures += not stop.is_set()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("flags", nargs="*", help="of the server, after --")
    given = parser.parse_args()
    where = setup.directory()
    if not setup.is_ready(where):
        print(f"SGLang is not installed in {where}: python tests/real/setup.py", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="lm-soak-") as home:
        for kind in ("STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{kind}_HOME"] = home
        os.environ["XDG_RUNTIME_DIR"] = home
        rig = Rig(where, Path(home))
        try:
            seen = asyncio.run(soak(rig, 60 * given.minutes, given.flags))
        finally:
            rig.end()
    print(seen.table())
    problems = seen.problems()
    print("\n".join(problems) if problems else "flat, in time, and nothing false")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
