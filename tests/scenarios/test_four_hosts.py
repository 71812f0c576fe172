"""One run over four hosts, each with an sshd of its own: launched, watched with one cable pulled, dumped and ended."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from launchmon.cluster.launching import commands
from launchmon.cluster.session import ClusterSession
from launchmon.connect import Nobody
from launchmon.connect.opening import open_pipe
from launchmon.connect.target import Target, ssh
from launchmon.session import Session
from tests.support.client import eventually
from tests.support.fake_servers import FAKES
from tests.support.hosts import Host, Hosts, needs_hosts
from tests.support.sshd import ClientHome, Sshd, needs_sshd

pytestmark = [needs_hosts, needs_sshd, pytest.mark.timeout(240)]

COUNT = 4


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[list[tuple[Host, Target]]]:
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(ClientHome(tmp_path / "home"))
        made = []
        for number, host in enumerate(stack.enter_context(Hosts(COUNT))):
            where = {"address": host.address, "port": 2222, "prefix": host.words}
            box = stack.enter_context(Sshd(tmp_path / f"box{number}", home, **where))  # type: ignore[arg-type]
            home.add_host(f"gpu{number}", box)
            made.append((host, ssh(f"gpu{number}")))
        yield made


async def opened(where: Target) -> Session:
    return await Session.open(lambda: open_pipe(where, Nobody()))


async def test_a_run_over_four_hosts(boxes: list[tuple[Host, Target]]) -> None:
    targets = [where for _, where in boxes]
    server = [sys.executable, "-m", "sglang.launch_server", "--model-path", "org/tiny", "--tp", str(2 * COUNT)]
    server += ["--port", "30000", "--dist-init-addr", f"{boxes[0][0].address}:20000"]
    plans = [{"argv": list(one), "env": {"PYTHONPATH": str(FAKES)}, "name": "far"} for one in commands(server, targets)]
    session = await ClusterSession.open([(where.label, partial(opened, where)) for where in targets])
    try:
        await session.launch(plans, targets)
        await eventually(lambda: all(row.pid for row in session.model.rank_rows()))
        placed = [(row.rank, row.node) for row in session.model.rank_rows()]
        assert placed == [(f"TP{rank}", rank // 2) for rank in range(2 * COUNT)]
        assert [(node.number, node.label) for node in session.nodes] == [(n, f"gpu{n}") for n in range(COUNT)]

        dump = await session.dump()
        assert {stack.node for stack in dump.stacks} == set(range(COUNT))

        boxes[3][0].cut()
        await eventually(lambda: session.nodes[3].problem is not None)
        assert [node.problem for node in session.nodes[:3]] == [None, None, None]
        assert session.link.state == "live" and "gpu3" in session.link.message
        boxes[3][0].mend()
        await eventually(lambda: session.nodes[3].problem is None)

        assert (await session.kill(force=True))["leftovers"] == []
    finally:
        await session.close()
