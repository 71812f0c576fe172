"""A dead-locked demo with planted secrets: recorded, looked back on, reported. No secret leaves it anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launchmon.demo.scenarios import demo_command
from launchmon.replay.recorded import Recorded
from launchmon.replay.session import ReplaySession
from launchmon.report.gather import gather
from launchmon.report.markdown import markdown
from launchmon_agent.codec import encode
from launchmon_agent.events import Event, Log
from launchmon_agent.runs import directory
from launchmon_agent.runs.directory import RunDirectory
from tests.support.client import agent, eventually
from tests.support.demo import DemoServer
from tests.support.ports import free_port
from tests.support.waiting import until

SOURCE = Path(__file__).resolve().parents[2] / "src"
SPEED = 8.0

SECRETS = {
    "api key": "planted-api-key-4711",
    "admin key": "planted-admin-key-0815",
    "token": "hf_" + "PlantedToken" * 3,
    "aws": "AKIAPLANTED123456789",
    "password": "planted-pass-word",
    "bearer": "planted-bearer-value",
    "variable": "planted-variable-value",
}
MODEL = "https://me:planted-pass-word@models.example/kimi"

LOGGED = (
    f"[2026-11-29 18:00:00 TP0] GET /v1 Authorization: Bearer {SECRETS['bearer']}",
    f"[2026-11-29 18:00:00 TP0] token {SECRETS['token']} and {SECRETS['aws']} were used",
    f"[2026-11-29 18:00:00 TP0] clone of https://me:{SECRETS['password']}@models.example failed",
    f"[2026-11-29 18:00:00 TP1] a server with --admin-api-key {SECRETS['admin key']} asked",
)


def launchmon(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from launchmon.cli import main; main()", *args],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.fixture(scope="module")
def stuck() -> Iterator[RunDirectory]:
    """In its dead-lock, with secrets in its flags, its variables and its log."""
    argv, env = demo_command("seed", free_port(), speed=SPEED)
    env |= {"HF_TOKEN": SECRETS["token"], "WANDB_API_KEY": SECRETS["variable"]}
    changes = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    flags = ["--api-key", SECRETS["api key"], f"--admin-api-key={SECRETS['admin key']}", "--model", MODEL, "--tp", "2"]
    done = launchmon("launch", *changes, "--detach", "--", *argv, *flags)
    assert done.returncode == 0, done.stderr
    run = done.stdout.strip()
    place = directory.find(run)
    assert place is not None
    try:
        until(lambda: Path(place.log).read_text(encoding="utf-8").count("Load weight end.") == 2, 60)
        with open(place.log, "a", encoding="utf-8") as log:
            log.write("".join(line + "\n" for line in LOGGED))
        assert launchmon("wait", run).returncode == 3
        yield place
    finally:
        launchmon("kill", run, "--yes", "--force")


def secrets_in(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [name for name, value in SECRETS.items() if value.encode() in data]


def everything(path: Path) -> bytes:
    """All that the archive of a report holds."""
    with tarfile.open(path) as archive:
        files = [archive.extractfile(member) for member in archive]
        return b"".join(file.read() for file in files if file is not None)


def test_the_secrets_are_there_to_be_found(stuck: RunDirectory) -> None:
    """Otherwise the tests below could not fail."""
    with open(stuck.log, encoding="utf-8") as log:
        assert secrets_in(log.read()) == ["api key", "admin key", "token", "aws", "password", "bearer"]
    with open(os.path.join(stuck.path, "run.json"), encoding="utf-8") as file:
        assert "api key" in secrets_in(file.read())


async def test_no_secret_reaches_a_client(stuck: RunDirectory) -> None:
    async with agent() as session:
        heard: list[Event] = []
        session.listen(heard.append)
        await session.attach(run=stuck.id)
        await eventually(lambda: session.log_is_read and session.model.processes is not None)
        await eventually(lambda: session.model.log is not None and len(session.model.log.last) > 1)
        answers: list[Any] = [
            [line.text for line in (await session.window("end", 200, 0)).lines],
            [line.text for line in (await session.window("end", 200, 0, raw=True)).lines],
            await session.relaunch_options(),
            await session.relaunch_plan(add=["--disable-cuda-graph"]),
            await session.ledger(),
            await session.kill_plan(),
            await session.request("runs"),
            await session.software(),
            [line.decode() for line in await session.recording()],
        ]
        said = b"".join(map(encode, heard)) + b"".join(map(encode, session.model.replay()))
        assert secrets_in(said) == []
        for answer in answers:
            assert secrets_in(json.dumps(answer, default=str)) == [], answer
        assert any("Bearer •••" in text for text in answers[0])
        assert any("•••" in text and "admin-api-key" in text for text in answers[1])


def test_no_secret_is_recorded(stuck: RunDirectory) -> None:
    recorded = Path(stuck.events).read_bytes()
    assert b'"kind":"verdict"' in recorded
    assert secrets_in(recorded) == []


def test_a_report_of_a_run_that_goes_on(stuck: RunDirectory, tmp_path: Path) -> None:
    done = launchmon("report", stuck.id, "-o", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(tmp_path / "mine.md"), str(tmp_path / "mine.tar.gz")]
    assert "API key: in " in done.stderr
    text = (tmp_path / "mine.md").read_text(encoding="utf-8")
    whole = everything(tmp_path / "mine.tar.gz")
    assert secrets_in(text) + secrets_in(whole) + secrets_in(done.stdout + done.stderr) == []
    for said in ("deadlock-silent", "TP0-1", "init_memory_pool", "Authorization: Bearer •••", "--api-key •••"):
        assert said in text
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = launchmon("report", stuck.id, "-o", "mine", cwd=tmp_path)
    assert again.returncode == 1
    assert "exists already" in again.stderr


def test_the_archive_is_replayed_and_reported_elsewhere(stuck: RunDirectory, tmp_path: Path) -> None:
    assert launchmon("report", stuck.id, "-o", str(tmp_path / "r")).returncode == 0
    archive = str(tmp_path / "r.tar.gz")
    found = json.loads(launchmon("replay", archive, "--json").stdout)
    assert found["verdict"]["kind"] == "deadlock-silent"
    assert [rank["rank"] for rank in found["ranks"]] == ["TP0", "TP1"]
    done = launchmon("report", archive, "-o", "-")
    assert done.returncode == 0, done.stderr
    assert "deadlock-silent" in done.stdout
    assert secrets_in(done.stdout) == []


def test_a_moment_of_the_past_as_an_object(stuck: RunDirectory) -> None:
    early = launchmon("replay", stuck.id, "--at", "start", "--json")
    assert early.returncode == 0, early.stderr
    assert json.loads(early.stdout)["phase"]["name"] == "start"
    late = json.loads(launchmon("replay", stuck.path, "--json").stdout)
    assert late["verdict"]["kind"] == "deadlock-silent"
    assert late["run"]["id"] == stuck.id
    assert secrets_in(early.stdout + json.dumps(late)) == []


def test_wrong_times_files_and_runs_are_refused_in_words(stuck: RunDirectory, tmp_path: Path) -> None:
    for words in (
        ("replay", stuck.id, "--at", "soon", "--json"),
        ("replay", str(tmp_path / "nothing.jsonl"), "--json"),
        ("replay", "no-such-run", "--json"),
        ("report", "no-such-run"),
    ):
        done = launchmon(*words)
        assert done.returncode == 1, words
        assert done.stdout == ""
        assert done.stderr.startswith("launchmon: ")
        assert "Traceback" not in done.stderr


async def test_a_replay_reads_the_log_up_to_its_moment(stuck: RunDirectory) -> None:
    async with agent() as session:
        await session.attach(run=stuck.id)
        recorded = Recorded(await session.recording())
        replay = await asyncio.to_thread(lambda: ReplaySession(recorded, session.target, session))
        known = next(at for at in range(len(recorded)) if isinstance(one := recorded.event(at), Log) and one.size)
        replay.to_time(recorded.time(known + 1))
        window = await replay.window("end", 50, 0)
        assert replay.model.log is not None
        assert window.size == replay.model.log.size < os.path.getsize(stuck.log)
        assert window.lines
        assert all(line.offset < window.size for line in window.lines)
        assert not any("Bearer" in line.text for line in window.lines)
        assert (await replay.search("Bearer", 0, True)).offset is None
        replay.to_time(recorded.end)
        assert any("Load weight end" in line.text for line in (await replay.window("end", 50, 0)).lines)


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[DemoServer]:
    server = DemoServer(tmp_path, "--tp", "2", "--speed", str(SPEED), "--api-key", SECRETS["api key"])
    try:
        yield server
    finally:
        server.end()


async def test_a_run_started_by_hand_is_looked_back_on_with_what_was_seen_of_it(by_hand: DemoServer) -> None:
    async with agent() as session:
        await session.attach(pid=by_hand.process.pid)
        await eventually(lambda: session.model.phases.run_phase() == "ready" and session.model.http is not None)
        await eventually(lambda: session.model.http is not None and session.model.http.model_info == 200)
        lines = await session.recording()
        assert secrets_in(b"".join(lines)) == []
        replay = ReplaySession(Recorded(lines), session.target, session)
        assert [one.text for one in replay.moments if one.kind == "phase"][-1] == "ready"
        assert replay.model.run == session.model.run
        replay.to_time(replay.recorded.begin)
        assert replay.model.phases.run_phase() != "ready"
        text = markdown(await gather(session))
        assert "Started by somebody else" in text
        assert "--api-key •••" in text


def test_zz_an_ended_run_is_replayed_and_reported_from_its_directory(stuck: RunDirectory, tmp_path: Path) -> None:
    """The last test here: it ends the run."""
    assert launchmon("kill", stuck.id, "--yes", "--force").returncode == 0
    found = json.loads(launchmon("replay", stuck.id, "--json").stdout)
    assert found["verdict"]["kind"] == "stopped"
    assert json.loads(launchmon("replay", stuck.id, "--at", "-3s", "--json").stdout)["schema"] == 1
    done = launchmon("report", stuck.id, "-o", "-")
    assert "# " in done.stdout and "deadlock-silent" in done.stdout.splitlines()[0], done.stdout[:300]
    assert "Before it was ended" in done.stdout
    assert "When all of them were last seen" in done.stdout
    assert "SIGKILL" in done.stdout or "status -9" in done.stdout
    assert secrets_in(done.stdout) == []
    copied = tmp_path / "copied"
    copied.mkdir()
    for name in os.listdir(stuck.path):
        if os.path.isfile(os.path.join(stuck.path, name)):
            (copied / name).write_bytes(Path(stuck.path, name).read_bytes())
    elsewhere = launchmon("report", str(copied), "-o", "-")
    assert "Authorization: Bearer •••" in elsewhere.stdout, "the log is read from the copied directory"
    assert secrets_in(elsewhere.stdout) == []
