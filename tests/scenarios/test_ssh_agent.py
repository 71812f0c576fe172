"""An agent reached over SSH: what it is given arrives to the byte, and nothing of it stays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from launchmon.connect import target
from launchmon.connect.target import Target
from launchmon.session import Session
from tests.support import fake_servers
from tests.support.client import agent, eventually
from tests.support.ports import free_port
from tests.support.sshd import ClientHome, Sshd, needs_sshd
from tests.support.waiting import until

pytestmark = needs_sshd

ODD = ["two words", 'it\'s "$HOME" `id` !1 \\', "two\nlines", "", "-n", "*", os.fsdecode(b"\xff\xfe\x01"), "é😀\u202e"]
"""Arguments that a shell would change, or that are no text."""

ECHO = (
    "import os,sys,time; "
    "print([os.fsencode(a) for a in sys.argv[1:]], os.getcwdb(), os.environb[b'ODD']); time.sleep(600)"
)

NOISE = "echo 'Welcome \033[31m\033]0;owned\007 {\"hello\": {}}'\nprintf 'no line end'\nexport CHANGED=1\n"
"""What startup files print, on both ends of a login."""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sshd]:
    banner = tmp_path / "banner"
    banner.write_text("AUTHORISED USERS ONLY\n" * 50)
    with ClientHome(tmp_path / "home") as home, Sshd(tmp_path / "box", home, [f"Banner {banner}"]) as server:
        home.add_host("box", server)
        (server.login_home / ".bashrc").write_text(f"{NOISE}{{ {NOISE} }} >&2\n")
        yield server


@pytest.fixture
def where(box: Sshd) -> Target:
    return target.ssh("box")


async def log_text(session: Session) -> str:
    await eventually(lambda: session.model.log is not None and session.model.log.size > 0)
    window = await session.window("end", 20, 0)
    return "\n".join(line.text for line in window.lines)


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


async def test_arguments_variables_and_paths_arrive_to_the_byte(box: Sshd, where: Target, tmp_path: Path) -> None:
    odd = os.fsdecode(b"it's \xff a\n$(dir)")
    (tmp_path / odd).mkdir()
    async with agent(where) as session:
        run = await session.launch(
            argv=["python3", "-u", "-c", ECHO, *ODD], env={"ODD": odd}, cwd=str(tmp_path / odd), name="odd"
        )
        try:
            expected = f"{[os.fsencode(word) for word in ODD]} {os.fsencode(tmp_path / odd)!r} {os.fsencode(odd)!r}"
            await eventually(lambda: session.model.log is not None and session.model.log.size > len(expected))
            assert await log_text(session) == expected
            assert run.argv[4:] == tuple(ODD)
        finally:
            await session.kill(force=True)


async def test_a_log_at_a_path_of_any_bytes_is_read(box: Sshd, where: Target, tmp_path: Path) -> None:
    log = tmp_path / os.fsdecode(b"a 'log' \xfe\n.txt")
    log.write_text("line one\nline two\n")
    with fake_servers.session_of(*fake_servers.command(port=free_port()), env=fake_servers.environment()) as server:
        async with agent(where) as session:
            await session.attach(pid=server.pid, log=str(log))
            assert await log_text(session) == "line one\nline two"


async def test_nothing_is_left_of_an_agent_that_only_watched(box: Sshd, where: Target) -> None:
    before = files(box.login_home), files(box.sockets)
    with fake_servers.session_of(*fake_servers.command(port=free_port()), env=fake_servers.environment()) as server:
        async with agent(where) as session:
            assert session.hello is not None
            watcher = psutil.Process(session.hello.pid)
            await session.attach(pid=server.pid)
            await eventually(lambda: session.model.processes is not None)
            family = [watcher, *watcher.children(recursive=True)]
        until(lambda: not any(process.is_running() for process in family))
        assert server.poll() is None
    assert (files(box.login_home), files(box.sockets)) == before


async def test_an_agent_ends_with_the_link_and_a_run_goes_on(box: Sshd, where: Target) -> None:
    async with agent(where) as session:
        assert session.hello is not None
        watcher = psutil.Process(session.hello.pid)
        run = await session.launch(argv=["python3", "-u", "-c", ECHO], env={"ODD": "1"}, name="goes-on")
        assert run.pid is not None
        server = psutil.Process(run.pid)
        await asyncio.to_thread(box.stop)
        await asyncio.to_thread(until, lambda: not watcher.is_running())
        assert server.is_running()
    box.start()
    async with agent(where) as session:
        again = await session.attach(run=run.id)
        assert (again.pid, again.start_time) == (run.pid, run.start_time)
        await session.kill(force=True)
    assert not server.is_running()
