"""The judge on the genuine SGLang, made to misbehave: the right kind and blame, and no wrong alarm before."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from launchmon.session import Session
from tests.real.rig import Rig, Server
from tests.support.client import agent, eventually, verdict
from tests.support.ports import free_port

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

READY_S = 240.0
HEALTHY = {"unknown", "starting", "reading", "compiling", "computing", "http-wait", "ready", "serving"}
"""Unknown is what it is before the first sample."""


class Watched:
    """A server started by hand, a session on it, and every verdict since."""

    def __init__(self, session: Session, server: Server) -> None:
        self.session = session
        self.server = server
        self.kinds: list[str] = []
        session.subscribe(self._note)

    def _note(self) -> None:
        kind = verdict(self.session)
        if kind is not None and self.kinds[-1:] != [kind]:
            self.kinds.append(kind)

    async def until(self, *kinds: str, seconds: float = READY_S) -> None:
        await eventually(lambda: verdict(self.session) in kinds, seconds)

    @property
    def blamed(self) -> tuple[str, ...]:
        found = self.session.model.verdict
        return found.blames if found else ()

    @property
    def summary(self) -> str:
        found = self.session.model.verdict
        return found.summary if found else ""

    def rank_pid(self, rank: str) -> int:
        return next(row.pid for row in self.session.model.rank_rows() if row.rank == rank)

    def ask(self) -> None:
        """A request whose answer nobody waits for."""

        def ask() -> None:
            body = json.dumps({"text": "a", "sampling_params": {"max_new_tokens": 200}}).encode()
            url = f"http://127.0.0.1:{self.server.port}/generate"
            with contextlib.suppress(OSError):
                asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
                urllib.request.urlopen(asked, timeout=60).close()

        threading.Thread(target=ask, daemon=True).start()


@asynccontextmanager
async def watched(rig: Rig, *flags: str, **env: str) -> AsyncIterator[Watched]:
    server = rig.start(*flags, **env)
    async with agent() as session:
        await session.attach(pid=server.pid)
        yield Watched(session, server)


async def test_a_rank_that_never_loads_is_blamed_and_the_other_waits_for_it(rig: Rig) -> None:
    where = "TP1:sglang.srt.model_loader.loader:DefaultModelLoader.load_model:lock"
    async with watched(rig, "--tp", "2", LAUNCHMON_RIG_STUCK=where) as seen:
        await seen.until("one-behind", "crashed", "deadlock-silent")
        assert (verdict(seen.session), seen.blamed) == ("one-behind", ("TP1",))
        assert set(seen.kinds[:-1]) <= HEALTHY
        await eventually(lambda: any(dump.automatic for dump in seen.session.model.stacks), 30)


async def test_a_rank_that_sleeps_after_its_pools_is_stuck(rig: Rig) -> None:
    async with watched(rig, SGLANG_TEST_STUCK_SCHEDULER_INIT="600") as seen:
        await seen.until("deadlock-silent", "one-behind", "crashed")
        assert (verdict(seen.session), seen.blamed) == ("deadlock-silent", ("TP0",))


async def test_node_0_alone_waits_for_its_peer_at_an_address(rig: Rig) -> None:
    address = f"127.0.0.1:{free_port()}"
    flags = ("--tp", "2", "--nnodes", "2", "--node-rank", "0", "--dist-init-addr", address)
    async with watched(rig, *flags) as seen:
        await seen.until("waiting-peer", "deadlock-silent", "crashed")
        assert verdict(seen.session) == "waiting-peer"
        assert address in seen.summary


async def test_healthy_then_a_rank_is_stopped_while_serving_then_killed(rig: Rig) -> None:
    async with watched(rig, "--tp", "2") as seen:
        await seen.until("ready", "crashed", "deadlock-silent")
        assert set(seen.kinds) <= HEALTHY
        pid = seen.rank_pid("TP1")
        os.kill(pid, signal.SIGSTOP)
        seen.ask()
        await seen.until("hung-serving", "crashed", seconds=60)
        assert (verdict(seen.session), seen.blamed) == ("hung-serving", ("TP1",))
        os.kill(pid, signal.SIGCONT)
        await seen.until("ready", "serving", seconds=60)
        await asyncio.sleep(1)
        os.kill(pid, signal.SIGKILL)
        await seen.until("crashed", seconds=60)
        assert seen.blamed == ("TP1",)
