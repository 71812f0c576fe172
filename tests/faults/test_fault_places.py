"""The places that launchmon writes to fill up, disappear, become read-only, or lack sockets and locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from launchmon_agent import keep, relay
from launchmon_agent.errors import Refused
from launchmon_agent.events import Notice
from launchmon_agent.keep import Keeper
from launchmon_agent.log.spool import Spool
from launchmon_agent.runs import sockets
from launchmon_agent.runs.directory import RunDirectory, create
from launchmon_agent.runs.recording import Recording, read_events
from launchmon_agent.stacks import cache
from tests.support.client import agent as client
from tests.support.client import eventually
from tests.support.fault_rig import FaultRig
from tests.support.prefixes import needs_root
from tests.support.raw_agent import RawAgent
from tests.support.waiting import until

PAGE = 4096


@contextmanager
def mounted(at: Path, *options: str) -> Iterator[Path]:
    """A small file system of its own. Needs root."""
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def fill(folder: Path) -> Path:
    """A file that takes all the space that is left."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * PAGE)
    return filler


@pytest.fixture
def small_state(rig: FaultRig) -> Iterator[Path]:
    with mounted(rig.home / "state", "size=512k", "mode=700") as place:
        yield place
        rig.end()


@pytest.fixture
def here(rig: FaultRig, monkeypatch: pytest.MonkeyPatch) -> FaultRig:
    """Agents and keepers of this process, and those that it starts, have these directories."""
    for name, value in rig.environ.items():
        monkeypatch.setenv(name, value)
    return rig


def notice(agent: RawAgent, source: str, words: str) -> str:
    """The first of that source with these words in it."""
    return str(
        agent.wait_for(lambda one: one.get("kind") == "notice" and one["source"] == source and words in one["text"])[
            "text"
        ]
    )


# ----------------------------------------------------------------------------------------------------------------- full


@needs_root
@pytest.mark.parametrize("pages", [1, 3, 4, 6])
def test_a_launch_on_a_full_disk_is_refused_and_leaves_neither_server_nor_file(rig: FaultRig, pages: int) -> None:
    with mounted(rig.home / "state", f"size={pages * PAGE}", "mode=700") as place, rig.agent() as agent:
        plan = rig.plan()
        try:
            run = agent.ask("launch", **{**plan, "without": [] if pages == 6 else ["hook"]})
        except Refused as refused:
            assert "No space left on device" in refused.cause or "No space left on device" in refused.what
            assert not rig.runs() and not rig.servers() and not os.listdir(rig.home / "run" / "launchmon")
            assert not list(place.rglob("server.log"))
        else:
            assert rig.servers() == [run["pid"]]
        rig.end()


@needs_root
def test_a_disk_that_fills_up_costs_the_recording_and_never_the_server(rig: FaultRig, small_state: Path) -> None:
    with rig.agent() as agent:
        place = rig.launch(agent)
        server = rig.server(place)
        filler = fill(small_state)
        notice(agent, "recording", "No space left on device; the server is not affected")
        window = agent.ask("window", at="end", before=3, after=0)
        assert window["lines"], "the log can be read as far as it was written"
        filler.unlink()
        recorded = os.path.getsize(place.events)
        until(lambda: os.path.getsize(place.events) > recorded)
        rig.assert_unharmed(place, server)
        rig.assert_kept(place)
        assert all(isinstance(one.at, float) for one in read_events(place)), "a torn line is passed over"


@needs_root
@pytest.mark.parametrize("why", ["full", "read-only"])
def test_a_run_whose_directory_cannot_be_written_is_adopted_all_the_same(
    rig: FaultRig, small_state: Path, why: str
) -> None:
    with rig.agent() as agent:
        place = rig.launch(agent)
    server = rig.server(place)
    rig.kill_keeper(place)
    filler = fill(small_state)
    if why == "read-only":
        filler.unlink()
        subprocess.run(["mount", "--bind", str(small_state), str(small_state)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(small_state)], check=True)
    try:
        with rig.agent() as one, rig.agent() as two:
            assert one.ask("attach", run=place.id)["pid"] == server.pid
            assert two.ask("attach", run=place.id)["pid"] == server.pid, "by the keeper that cannot write its name"
            assert len(rig.keepers()) == 1
            notice(one, "recording", "run.json cannot be written")
            assert one.ask("window", at=0, before=0, after=9)["lines"][0]["text"] == "line 0"
        assert rig.servers() == [server.pid] and rig.witness.signals == []
    finally:
        if why == "read-only":
            subprocess.run(["umount", "-l", str(small_state)], check=True)
    if why == "full":
        filler.unlink()
    rig.assert_unharmed(place, server)


@needs_root
def test_a_cache_without_room_is_passed_over_for_the_next_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    program = b"#!/bin/sh\nexit 0\n" + os.urandom(64 * 1024)
    name = f"py-spy-0.4.0-x86_64-{hashlib.sha256(program).hexdigest()}"
    with mounted(tmp_path / "full", "size=16k", "mode=700") as full:
        second = tmp_path / "second"
        assert cache.keep(name, zlib.compress(program), [str(full / "a"), str(second)]) == str(second / name)
        assert not list(full.rglob("py-spy*")), "nothing half is left"
        with pytest.raises(Refused, match="no place for py-spy") as refused:
            cache.keep(name, zlib.compress(program), [str(full / "a")])
        assert "No space left on device" in refused.value.cause


@needs_root
def test_a_copy_of_a_log_without_room_says_so(tmp_path: Path) -> None:
    with mounted(tmp_path / "full", "size=16k", "mode=700") as full:
        spool = Spool(str(full))
        fill(full)
        with pytest.raises(OSError, match="No space"):
            spool.append(b"x" * PAGE)
        spool.remove()
        assert [path.name for path in full.iterdir()] == ["filler"]


# ----------------------------------------------------------------------------------------------------------------- gone


def test_a_run_whose_directory_is_removed_goes_on_and_can_be_ended(rig: FaultRig) -> None:
    with rig.agent() as agent:
        place = rig.launch(agent, "--tp", "2")
        server = rig.server(place)
        shutil.rmtree(place.path)
        agent.wait_for(lambda one: one.get("kind") == "log" and "was deleted or moved" in (one.get("error") or ""))
        rig.assert_unharmed(place, server)
        before = agent.ask("window", at=0, before=0, after=500)
        until(lambda: agent.ask("window", at=0, before=0, after=500)["size"] > before["size"])
        rig.witness.assert_whole("".join(line["text"] + "\n" for line in before["lines"]))
        assert agent.ask("kill", force=True)["leftovers"] == []
    assert rig.servers() == []


async def test_a_keeper_without_its_directory_dies_and_what_is_said_of_the_server_is_true(here: FaultRig) -> None:
    async with client() as session:
        run = await session.launch(**here.plan())
        place = RunDirectory(os.path.join(here.root, run.id))
        server, keeper = here.server(place), here.keeper(place)
        shutil.rmtree(place.path)
        os.kill(keeper.pid, signal.SIGKILL)
        await eventually(lambda: session.link.state == "ended")
        way = f"{place.path} was removed; the server goes on: launchmon attach --pid {server.pid}"
        assert session.link.message == f"no such run any more: {way}"
        assert "no other" in next(note.text for note in session.model.notices if note.source == "keeper")
    assert here.servers() == [server.pid] and here.witness.signals == []


def test_without_its_directory_of_sockets_a_keeper_answers_elsewhere(rig: FaultRig) -> None:
    with rig.agent() as agent:
        place = rig.launch(agent)
        before = rig.file(place).socket
        (rig.home / "run").rename(rig.home / "gone")  # in one step: the keeper looks for it each second
        (rig.home / "run").write_text("something else is there now")
        until(lambda: rig.file(place).socket != before)
        rig.assert_unharmed(place)
        rig.assert_kept(place)
    rig.assert_followed_to_the_end(place)


# ------------------------------------------------------------------------------------------- without sockets, or locks


def test_without_sockets_a_launch_is_refused_before_the_server_starts(
    here: FaultRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoSockets(socket.socket):
        def bind(self, _address: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(sockets, "socket", SimpleNamespace(socket=NoSockets, AF_UNIX=socket.AF_UNIX))
    monkeypatch.setattr(keep, "start", lambda *_: pytest.fail("the server was started"))
    with pytest.raises(Refused, match="there can be no socket at") as refused:
        Keeper.launch(here.plan())
    assert "XDG_RUNTIME_DIR" in refused.value.try_
    assert here.runs() == []


def test_without_locks_a_run_has_one_keeper_all_the_same(here: FaultRig, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    place = create(("true",), root=here.root)
    first = Keeper(place)
    assert first._troubles == ["the recording cannot be locked: No locks available"]
    with pytest.raises(Refused, match="this run has a keeper"):
        Keeper(place)
    place.update(socket=first._socket)
    (here.home / "elsewhere").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(here.home / "elsewhere"))
    with pytest.raises(Refused, match="this run has a keeper"):
        Keeper.adopt(place)
    monkeypatch.setenv("XDG_RUNTIME_DIR", here.environ["XDG_RUNTIME_DIR"])
    first._listener.close()
    second = Keeper(place)  # the socket that the first left is no obstacle
    second._listener.close()
    first._recording.close()
    second._recording.close()


def test_a_second_keeper_is_refused_by_the_lock(here: FaultRig) -> None:
    place = create(("true",), root=here.root)
    first = Keeper(place)
    with pytest.raises(Refused, match="recorded by another keeper"):
        Keeper(place)
    first._listener.close()
    first._recording.close()


async def test_a_keeper_that_is_stopped_holds_nobody_up(here: FaultRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket takes connections, as the kernel does that for it, and nothing is ever said."""
    monkeypatch.setattr(relay, "GREETING_S", 0.05)
    path = here.home / "silent.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        place = create(("true",), root=here.root, socket=str(path))
        with pytest.raises(Refused, match="does not answer") as refused:
            await relay.Relay(place, lambda _line: None, lambda: None).open()
    assert "it is stopped" in refused.value.cause


def test_a_run_json_that_was_made_a_fifo_holds_nobody_up(here: FaultRig) -> None:
    good, bad = create(("true",), root=here.root), create(("true",), root=here.root)
    os.unlink(os.path.join(bad.path, "run.json"))
    os.mkfifo(os.path.join(bad.path, "run.json"))
    assert [place.id for place in here.runs()] == [good.id]


def test_a_recording_that_was_made_a_directory_costs_events_alone(tmp_path: Path) -> None:
    troubles: list[str] = []
    os.mkdir(tmp_path / "events.jsonl")
    recording = Recording(RunDirectory(str(tmp_path)), troubles.append)
    assert not recording.append(Notice(1.0, source="x", text="y"))
    recording.close()
    assert len(troubles) == 1 and "the server is not affected" in troubles[0]
