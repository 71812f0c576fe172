"""What a remote view costs: time to the first live panel, and bytes a second over an sshd on the loopback.

``python -m tests.bench --only remote``

Watches a simulated server with eight ranks through the compressed pipe, first as it stands still, then while its log is
flooded. Bytes are those of the SSH channel, without SSH's own framing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from launchmon.connect import Nobody, Pipe, target
from launchmon.connect.opening import open_pipe
from launchmon.demo.scenarios import demo_command
from launchmon.session import Session
from tests.bench.result import Result, run
from tests.support.ports import free_port
from tests.support.sshd import ClientHome, Sshd

FLOOD = b"[2026-01-01 00:00:00 TP0] " + b"a line of the flood " * 5 + b"\n"
FLOOD_LINES_S = 5000


async def measure(seconds: float) -> list[Result]:
    where = target.ssh("box")
    argv, env = demo_command("seed", free_port(), speed=20.0)
    launching = await Session.open(lambda: open_pipe(where, Nobody()))
    launched = await launching.launch(argv=list(argv), env=dict(env), name="bench")
    while launching.model.verdict is None or not launching.model.verdict.verdict.startswith("deadlock"):
        await asyncio.sleep(0.2)
    await launching.close()

    pipes: list[Pipe] = []

    async def opened() -> Pipe:
        pipes.append(await open_pipe(where, Nobody()))
        return pipes[-1]

    begun = time.monotonic()
    session = await Session.open(opened)
    await session.attach(run=launched.id)
    while session.model.processes is None or session.model.verdict is None:
        await asyncio.sleep(0.005)
    out = [Result("remote, loopback sshd: first live panel", time.monotonic() - begun, "s", 1.5)]

    before = pipes[-1].received
    await asyncio.sleep(seconds)
    rate = (pipes[-1].received - before) / seconds / 1000
    out.append(Result("remote, 8 ranks, standing still: compressed", rate, "KB/s", 4.0))

    assert launched.log is not None
    before, deadline = pipes[-1].received, time.monotonic() + seconds
    with open(launched.log, "ab", buffering=0) as log:
        while time.monotonic() < deadline:
            os.write(log.fileno(), FLOOD * (FLOOD_LINES_S // 10))
            await asyncio.sleep(0.1)
    rate = (pipes[-1].received - before) / seconds / 1000
    out.append(Result(f"remote, 8 ranks, a log of {FLOOD_LINES_S:,} lines/s: compressed", rate, "KB/s"))
    await session.kill(force=True)
    await session.close()
    return out


def results(quick: bool) -> Iterator[Result]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lm-bench-")))
        home = stack.enter_context(ClientHome(folder / "home"))
        home.add_host("box", stack.enter_context(Sshd(folder / "box", home)))
        yield from asyncio.run(measure(5.0 if quick else 15.0))


if __name__ == "__main__":
    run(results)
