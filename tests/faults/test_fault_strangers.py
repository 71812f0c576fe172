"""What others may see and do: modes of files, another user of the machine, planted links, and secrets."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchmon_agent.errors import Refused
from launchmon_agent.events import Notice
from launchmon_agent.log.spool import Spool
from launchmon_agent.runs.directory import RunDirectory
from launchmon_agent.runs.recording import Recording
from launchmon_agent.runs.sockets import answers
from launchmon_agent.sensors import proc
from tests.support.fault_rig import FaultRig
from tests.support.prefixes import SOURCE, needs
from tests.support.waiting import until

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
ACTION = "00112233445566778899aabbccddeeff"


def modes(folder: Path) -> dict[str, str]:
    """What is wrong there: path → mode, of everything that others might enter, read or write."""
    wrong = {}
    for path in [folder, *folder.rglob("*")]:
        try:
            status = path.lstat()
        except FileNotFoundError:  # a draft of the server's Python
            continue
        wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        if stat.S_IMODE(status.st_mode) != wanted and not stat.S_ISLNK(status.st_mode):
            wrong[str(path.relative_to(folder))] = oct(stat.S_IMODE(status.st_mode))
    return wrong


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


# ---------------------------------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize("umask", [0o000, 0o027])
def test_whatever_is_left_is_the_owners_alone_under_any_umask(
    rig: FaultRig, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for folder in ("state", "run", "cache"):
        shutil.rmtree(rig.home / folder)
    (rig.home / "run").mkdir(mode=0o700)
    with rig.agent(umask=umask) as agent:
        run = agent.ask("launch", **{**rig.plan(), "without": []}, action=ACTION)
        place = RunDirectory(os.path.join(rig.root, run["id"]))
        rig.until_it_writes(place)
        until(lambda: os.path.exists(place.events) and os.listdir(os.path.join(place.path, "hook")))
        agent.ask("relaunch", set={"A": "1"}, force=True)
        assert modes(rig.home / "state") == {}
        assert modes(rig.home / "run") == {}
        (server,) = rig.servers()
        status = (proc.read(f"/proc/{server}/status") or b"").decode()
        assert f"Umask:\t{umask:04o}" in status, "the server has the one of whoever started it"


def test_parts_of_a_recording_and_copies_of_a_log_are_the_owners_alone(tmp_path: Path, no_umask: None) -> None:
    place = tmp_path / "run"
    place.mkdir(mode=0o700)
    recording = Recording(RunDirectory(str(place)), pytest.fail, part_size=100, cap=1)
    for second in range(50):
        recording.append(Notice(float(second), source="x", text="y" * 50))
    recording.close()
    assert len(list(place.iterdir())) > 2 and modes(place) == {}
    spool = Spool(str(tmp_path))
    spool.append(b"x")
    assert modes(Path(spool.directory)) == {}
    spool.remove()


# --------------------------------------------------------------------------------------------------------- another user


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@needs("setpriv")
def test_another_user_can_neither_read_nor_drive_a_run(rig: FaultRig, tmp_path: Path) -> None:
    with rig.agent() as ours:
        place = rig.launch(ours, "--tp", "2")
        server, socket = rig.server(place), str(rig.file(place).socket)
        for folder in (rig.home, rig.home / "state", rig.home / "run", rig.home / "state" / "launchmon"):
            folder.chmod(0o755)  # however open the directories above are
        for path in (place.path, place.log, place.events, os.path.join(place.path, "run.json"), socket):
            seen = subprocess.run([*AS_NOBODY, "cat", path], capture_output=True, text=True, check=False)
            assert seen.returncode != 0 and "Permission denied" in seen.stderr, path
        knock = f"import socket; socket.socket(socket.AF_UNIX).connect({socket!r})"
        knocked = subprocess.run([*AS_NOBODY, sys.executable, "-c", knock], capture_output=True, text=True, check=False)
        assert "Permission denied" in knocked.stderr and answers(socket)

        with rig.agent(*AS_NOBODY, XDG_STATE_HOME="/nonexistent", XDG_RUNTIME_DIR="/nonexistent", HOME="/") as theirs:
            assert place.id not in json.dumps(theirs.ask("runs"))
            with pytest.raises(Refused):
                theirs.ask("attach", run=place.id)
            with contextlib.suppress(Refused):
                theirs.ask("attach", pid=server.pid)
                theirs.ask("kill", force=True)
        for number in (15, 9):
            subprocess.run([*AS_NOBODY, "kill", f"-{number}", str(server.pid)], capture_output=True, check=False)
        rig.assert_unharmed(place)
        rig.assert_kept(place)


# --------------------------------------------------------------------------------------------------------- planted ways


@pytest.mark.parametrize("name", ["../../x", "..", ".", "/etc", "", "a/b", "x\0y", "*"])
def test_an_id_is_no_path(rig: FaultRig, name: str) -> None:
    outside = rig.home / "state" / "launchmon" / "x"
    outside.mkdir(parents=True)
    (outside / "run.json").write_text('{"id": "x", "argv": ["true"], "created": 1}')
    (rig.home / "state" / "launchmon" / "runs").mkdir()
    with rig.agent() as agent:
        with pytest.raises(Refused):
            agent.ask("attach", run=name)
        with pytest.raises(Refused):
            agent.ask("ledger", run=name or "nothing")
        assert agent.ask("resume", run=name)["run"] is None
        with pytest.raises(Refused, match="hexadecimal"):
            agent.ask("outcome", action=name)


@pytest.mark.parametrize("what", ["server.log", "events.jsonl", "run.json"])
def test_links_in_a_directory_that_was_copied_lead_nowhere(rig: FaultRig, tmp_path: Path, what: str) -> None:
    with rig.agent() as agent:
        place = rig.launch(agent)
        agent.ask("kill", force=True)
    copy = tmp_path / place.id
    shutil.copytree(place.path, copy)
    private = tmp_path / "private"
    private.write_text('{"kind":"notice","at":1,"source":"private","text":"do not tell"}\n')
    (copy / what).unlink()
    (copy / what).symlink_to(private)
    with rig.agent() as agent:
        with contextlib.suppress(Refused):
            agent.ask("attach", recorded=str(copy))
            agent.ask("window", at=0, before=0, after=9)
            agent.ask("recording", start=0)
        assert "do not tell" not in json.dumps(agent.heard)


# -------------------------------------------------------------------------------------------------------------- secrets

SECRETS = {
    "flag": "k3yInAFlag9182736450abcdef",
    "variable": "hf_inAVariable918273645abcdef",
    "header": "beArerInTheLog918273645abcdef",
    "url": "passW0rdInAUrl9182736",
    "line": "hf_inALine91827364598765abcdefg",
}
SAID = (
    f"Authorization: Bearer {SECRETS['header']} https://me:{SECRETS['url']}@example.org/m token {SECRETS['line']} "
    f"api_key='{SECRETS['flag']}'"
)


def told(text: str | bytes) -> list[str]:
    """Names of the secrets that are in it."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return [name for name, secret in SECRETS.items() if secret in whole]


def launchmon(rig: FaultRig, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from launchmon.cli import main; main()", *args],
        env={**os.environ, **rig.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_secrets_leave_the_target_by_no_way(rig: FaultRig, tmp_path: Path) -> None:
    plan = rig.plan("--api-key", SECRETS["flag"], "--say", SAID)
    with rig.agent() as agent:
        run = agent.ask("launch", **plan, env={"HF_TOKEN": SECRETS["variable"]})
        place = RunDirectory(os.path.join(rig.root, run["id"]))
        rig.until_it_writes(place)
        assert set(told(rig.log(place))) == {"header", "url", "line", "flag"}, "the log is the server's own"
        agent.wait_for(lambda one: one.get("kind") == "verdict")
        for question in ("runs", "relaunch-options", "ledger", "kill-plan", "software"):
            agent.ask(question)
        agent.ask("relaunch-plan", set={"WANDB_API_KEY": SECRETS["variable"]})
        agent.ask("window", at=0, before=0, after=50, raw=True)
        agent.ask("search", pattern="Authorization", start=0, forward=True)
        with pytest.raises(Refused):
            agent.ask("launch", argv=["nothing-here", "--api-key", SECRETS["flag"]])
        part = agent.ask("recording", start=0)
        assert told(zlib.decompress(base64.b64decode(part["data"]))) == []
        assert told(json.dumps(agent.heard)) == []
        for pid in (*rig.keepers(), agent.process.pid):
            assert told(b" ".join((proc.read(f"/proc/{pid}/{name}") or b"") for name in ("cmdline", "comm"))) == []
        assert told(Path(place.events).read_bytes()) == []
        kept = told(Path(place.path, "run.json").read_bytes())
        assert "flag" in kept and "variable" not in kept, "a relaunch needs the command; the file is private"

    for words in (("runs",), ("diagnose", run["id"], "--for", "1", "--json")):
        done = launchmon(rig, *words)
        assert told(done.stdout + done.stderr) == [], words
    report = launchmon(rig, "report", run["id"], "-o", str(tmp_path / "shared"))
    assert report.returncode == 0, report.stderr
    assert told(report.stdout + report.stderr) == []
    files = [path for path in tmp_path.iterdir() if path.name.startswith("shared")]
    assert {path.name for path in files} == {"shared.md", "shared.tar.gz"}
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        data = path.read_bytes()
        assert told(zlib.decompress(data, 31) if path.suffix == ".gz" else data) == []
