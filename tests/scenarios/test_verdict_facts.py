"""What a verdict knows besides the log, on real processes: installed flags, orphans, files that arrive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from launchmon.session import Session
from launchmon_agent.events import Verdict
from launchmon_agent.runs import directory
from launchmon_agent.sensors import proc
from tests.support import fake_install, orphans
from tests.support.client import agent, eventually, verdict
from tests.support.ports import free_port

MISSPELT = ("--mem-fraction-statc", "0.8")
TAKEN = "torch.distributed.DistNetworkError: The server socket failed to listen. port: {port}, name: EADDRINUSE"


pytestmark = pytest.mark.usefixtures("ended")


async def crash_that_says(session: Session, words: str) -> Verdict:
    await eventually(lambda: session.model.verdict is not None and words in session.model.verdict.summary)
    found = session.model.verdict
    assert found is not None and found.verdict == "crashed"
    return found


async def said_of_the_flag(session: Session) -> None:
    words = "SGLang 0.5.8 has no --mem-fraction-statc; nearest is --mem-fraction-static."
    crash = await crash_that_says(session, words)
    assert crash.next[0].change == ("drop --mem-fraction-statc", "--mem-fraction-static=0.8")


async def test_a_flag_that_the_installed_sglang_lacks_is_named_with_the_nearest_now_and_later(tmp_path: Path) -> None:
    env = fake_install.install(tmp_path)
    async with agent() as session:
        run = await session.launch(argv=fake_install.command(*MISSPELT, port=free_port()), env=env, anyway=True)
        await eventually(lambda: session.model.installed)
        Path(env["GATE"]).touch()
        await said_of_the_flag(session)
    place = directory.find(run.id)
    assert place is not None
    file = place.read()
    assert file is not None and file.keeper is not None
    os.kill(file.keeper.pid, signal.SIGTERM)
    await eventually(lambda: not psutil.pid_exists(file.keeper.pid) if file.keeper else False)
    async with agent() as session:  # nothing of it is alive: what was recorded is judged alike
        await session.attach(run=run.id)
        await said_of_the_flag(session)
        assert session.model.run is not None and session.model.run.limits


async def test_of_a_server_that_somebody_else_started_too(tmp_path: Path) -> None:
    env = {**os.environ, **fake_install.install(tmp_path)}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            fake_install.command(*MISSPELT, port=free_port()), env=env, stdout=log, stderr=log, start_new_session=True
        ) as server,
    ):
        proc.wait_for_exec(server.pid)
        async with agent() as session:
            await session.attach(pid=server.pid)
            await eventually(lambda: session.model.installed)
            Path(env["GATE"]).touch()
            await said_of_the_flag(session)


async def test_an_orphan_on_the_rendezvous_port_is_the_reason_of_the_crash(tmp_path: Path) -> None:
    with orphans.rank() as (pid, port):
        error = f"Traceback (most recent call last):\n  File 'x.py', line 1, in run\n{TAKEN.format(port=port)}"
        env = fake_install.install(tmp_path, f"sys.exit({error!r})")
        async with agent() as session:
            await session.launch(argv=fake_install.command(port=free_port()), env=env, anyway=True)
            await eventually(lambda: session.model.leftovers)
            Path(env["GATE"]).touch()
            words = f"Port {port} is held by sglang::scheduler_TP3 of an earlier launch (pid {pid})"
            crash = await crash_that_says(session, words)
    assert crash.next[0].change == (f"launchmon kill --pid {pid}",)


ARRIVES = """
with open(os.environ["BLOB"], "ab") as blob:
    for _ in range(600):
        blob.write(b"w" * 262144)
        blob.flush()
        time.sleep(0.1)
"""


async def test_a_download_is_told_by_the_bytes_that_have_arrived(tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--org--tiny"
    for folder in ("blobs", "refs", "snapshots/abc"):
        (repository / folder).mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    index = {"metadata": {"total_size": 1 << 30}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    (repository / "snapshots" / "abc" / "model.safetensors.index.json").write_text(json.dumps(index))
    env = {
        **fake_install.install(tmp_path, ARRIVES),
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "BLOB": str(repository / "blobs" / "hash.incomplete"),
    }
    async with agent() as session:
        await session.launch(argv=fake_install.command(port=free_port()), env=env, anyway=True)
        Path(env["GATE"]).touch()
        await eventually(lambda: verdict(session) == "downloading")
        await eventually(lambda: " of 1.0 GiB, about " in (session.model.verdict or Verdict(0.0)).summary)
        await session.kill(force=True)
