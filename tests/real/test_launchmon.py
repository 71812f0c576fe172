"""launchmon on the genuine SGLang: launched and attached to, from the first second to the last process."""

from __future__ import annotations

import os
import signal
import urllib.request

import psutil
import pytest

from launchmon.session import Session
from launchmon_agent.runs import directory
from tests.real.rig import Rig
from tests.support.client import agent, eventually, phases, verdict

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

READY_S = 240.0


def rail(session: Session) -> dict[str, str]:
    return {cell.phase: cell.state for cell in session.model.phases.rail(session.model.now)}


async def test_two_ranks_launched_survive_client_and_keeper_and_are_found_again(rig: Rig) -> None:
    argv, _ = rig.command("--tp", "2")
    async with agent() as session:
        run = await session.launch(argv=list(argv), env=rig.changes(), cwd=str(rig.workdir))
        assert run.pid is not None
        rig.watch(run.pid)
        await eventually(lambda: verdict(session) in ("ready", "crashed"), READY_S)
        assert verdict(session) == "ready", session.model.verdict
        done = ("start", "spawn", "dist-init", "weights", "kv-pool", "http", "warm-up")
        assert dict.fromkeys(done, "done").items() <= rail(session).items()
        rows = session.model.rank_rows()
        assert [row.rank for row in rows] == ["TP0", "TP1"]
        titles = [psutil.Process(row.pid).cmdline()[0].rstrip("\0 ") for row in rows]
        assert titles == ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
        begins = [begin for phase, rank, begin, _ in phases(session) if rank == "TP1"]
        assert begins == sorted(begins)
        before = phases(session)
        assert session.hello is not None
        os.kill(session.hello.pid, signal.SIGKILL)
        await eventually(lambda: session.link.state == "lost")
    place = directory.find(run.id)
    file = place.read() if place else None
    assert file is not None and file.keeper is not None
    os.kill(file.keeper.pid, signal.SIGKILL)
    await eventually(lambda: not psutil.pid_exists(file.keeper.pid))
    with urllib.request.urlopen(f"http://127.0.0.1:{run.port}/model_info", timeout=10) as answer:
        assert answer.status == 200
    async with agent() as session:
        await session.attach(run=run.id)
        await eventually(lambda: verdict(session) == "ready" and len(phases(session)) == len(before))
        assert phases(session) == before
        result = await session.kill()
        assert result["leftovers"] == [] and result["graceful"]
        await eventually(lambda: verdict(session) == "stopped")


@pytest.mark.parametrize(("flags", "ranks"), [((), ["TP0"]), (("--dp-size", "2"), ["DP0", "DP1"])])
async def test_a_server_started_by_hand_is_attached_to_while_it_starts(
    rig: Rig, flags: tuple[str, ...], ranks: list[str]
) -> None:
    server = rig.start(*flags)
    async with agent() as session:
        run = await session.attach(port=server.port)
        assert (run.pid, run.log, run.log_source) == (server.pid, str(server.log), "file")
        await eventually(lambda: verdict(session) in ("ready", "crashed"), READY_S)
        assert verdict(session) == "ready", session.model.verdict
        assert [row.rank for row in session.model.rank_rows()] == ranks
        assert {row.rank: row.pid for row in session.model.rank_rows()} == server.ranks()
        assert session.model.run is not None and session.model.run.engine_version == "0.5.23"
        victim = session.model.rank_rows()[-1]
        assert victim.pid
        os.kill(victim.pid, signal.SIGKILL)
        await eventually(lambda: verdict(session) == "crashed")
        assert session.model.verdict is not None and session.model.verdict.blames == (victim.rank,)
