"""A genuine SGLang on two nodes, each a host of its own in namespaces: who waits for whom, and who failed first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest

from launchmon.cluster.session import ClusterSession
from launchmon.connect import Nobody
from launchmon.connect.opening import open_pipe
from launchmon.connect.target import Target, via
from launchmon.session import Session
from tests.real.rig import Rig, Server
from tests.support.client import eventually
from tests.support.hosts import Host, Hosts, needs_hosts

pytestmark = [pytest.mark.real, needs_hosts, pytest.mark.timeout(400)]

PORT = 30000


@pytest.fixture
def hosts(rig: Rig) -> Iterator[Sequence[Host]]:
    with Hosts(2) as made:
        yield made


def start(rig: Rig, hosts: Sequence[Host], number: int) -> Server:
    address = f"{hosts[0].address}:20000"
    flags = ("--tp", "2", "--nnodes", "2", "--node-rank", str(number), "--dist-init-addr", address)
    host = hosts[number]  # SGLang would take the loopback for its address: the host's name stands for nothing else
    here = {"GLOO_SOCKET_IFNAME": "eth0", "SGLANG_HOST_IP": host.address}
    return rig.start(*flags, port=PORT + number, on=host.words, **here)


@asynccontextmanager
async def watched(hosts: Sequence[Host]) -> AsyncIterator[ClusterSession]:
    async def opened(target: Target) -> Session:
        return await Session.open(lambda: open_pipe(target, Nobody()))

    targets = [via(host.prefix) for host in hosts]
    session = await ClusterSession.open([(target.label, partial(opened, target)) for target in targets])
    try:
        await session.attach()
        yield session
    finally:
        await session.close()


def kind(session: ClusterSession) -> str | None:
    return session.model.verdict.verdict if session.model.verdict else None


async def test_two_nodes_from_the_first_alone_to_ready_to_a_killed_rank(rig: Rig, hosts: Sequence[Host]) -> None:
    start(rig, hosts, 0)
    async with watched(hosts) as session:
        await eventually(lambda: kind(session) in ("waiting-peer", "crashed", "deadlock-silent"), 120)
        verdict = session.model.verdict
        assert verdict is not None
        assert (verdict.verdict, verdict.blames) == ("waiting-peer", ("node 1",))
        assert f"{hosts[0].address}:20000" in verdict.summary and "node 1 (node1)" in verdict.summary

        start(rig, hosts, 1)
        await eventually(lambda: kind(session) in ("ready", "serving", "crashed"), 200)
        assert kind(session) in ("ready", "serving")
        assert [(row.rank, row.node, bool(row.pid)) for row in session.model.rank_rows()] == [
            ("TP0", 0, True),
            ("TP1", 1, True),
        ]
        dump = await session.dump()
        assert {(stack.rank, stack.node) for stack in dump.stacks if stack.rank} == {("TP0", 0), ("TP1", 1)}

        pid = next(row.pid for row in session.model.rank_rows() if row.rank == "TP1")
        hosts[1].check("sh", "-c", f"kill -9 {pid}")
        await eventually(lambda: kind(session) == "crashed", 30)
        await asyncio.sleep(5)  # whatever follows must not change who failed first
        verdict = session.model.verdict
        assert verdict is not None
        assert (verdict.verdict, verdict.blames) == ("crashed", ("TP1",))
        assert verdict.summary.startswith("On node 1 (node1): ")
