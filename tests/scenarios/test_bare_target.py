"""Targets that have little: what they lack is done without, found elsewhere, or sent. Nothing else is left there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from launchmon.connect import target
from launchmon_agent.errors import Refused
from tests.support.client import agent, eventually
from tests.support.demo import DemoServer
from tests.support.prefixes import (
    SOURCE,
    bare_python,
    hiding_pythons,
    needs_root,
    old_python,
    script,
    server_environment,
)

STUCK = ("--scenario", "seed", "--tp", "2", "--speed", "8")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return server_environment(tmp_path_factory.mktemp("server") / "env")


@contextmanager
def serving(directory: Path, *program: str) -> Iterator[DemoServer]:
    directory.mkdir()
    server = DemoServer(directory, *STUCK, program=program)
    try:
        server.wait_for_ranks(2, "Load weight end")
        yield server
    finally:
        server.end()


def clean(path: str, home: Path | str, *more: str) -> str:
    """A prefix with an environment of its own."""
    return shlex.join(["env", "-i", f"PATH={path}", f"HOME={home}", *more])


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


async def test_a_target_with_a_python_and_nothing_else(tmp_path: Path, python: Path) -> None:
    bare_python(tmp_path / "bin")
    home = tmp_path / "home"
    home.mkdir()
    with serving(tmp_path / "server", str(python)) as server:
        async with agent(target.via(clean(f"{tmp_path}/bin:/usr/bin:/bin", home))) as session:
            assert session.hello is not None and session.hello.missing == ()
            await session.attach(pid=server.process.pid)
            await eventually(lambda: len([row for row in session.model.rank_rows() if row.pid]) == 2)
            stacks = await session.dump()
            assert {stack.means for stack in stacks.stacks} <= {"py-spy", "py-spy --nonblocking"}
            assert session.model.gpus is not None and session.model.gpus.gpus
            (remark,) = [notice.text for notice in session.model.notices if notice.source == "agent"]
            pid = session.hello.pid
        await eventually(lambda: not psutil.pid_exists(pid))
        (program,) = (home / ".cache" / "launchmon").iterdir()
        assert remark.endswith(str(program)) and program.name.startswith("py-spy-")
        left = files(home) - {f".cache/launchmon/{program.name}"}
        assert not [name for name in left if not name.startswith(".local/state/launchmon/")], left

        async with agent(target.via(clean(f"{tmp_path}/bin:/usr/bin:/bin", home))) as session:
            await session.attach(pid=server.process.pid)
            await session.dump()
            assert not [notice for notice in session.model.notices if notice.source == "agent"], "it was there already"


@needs_root
@pytest.mark.parametrize("old", [True, False], ids=["python too old", "no python"])
async def test_the_interpreter_of_the_server_serves_where_there_is_no_other(
    tmp_path: Path, python: Path, old: bool
) -> None:
    path = "/usr/bin:/bin"
    if old:
        old_python(tmp_path / "old")
        path = f"{tmp_path}/old:{path}"
    with serving(tmp_path / "server", *hiding_pythons('exec "$@"'), str(python)) as server:
        prefix = f"nsenter -t {server.process.pid} -m {clean(path, '/nonexistent')}"
        async with agent(target.via(prefix)) as session:
            assert session.hello is not None
            assert session.hello.interpreter == os.path.realpath(python)
            rung, pid = session.hello.found.split()
            assert rung == "server" and os.getsid(int(pid)) == server.process.pid
            await session.attach(pid=server.process.pid)
            await session.dump()
            remarks = [notice.text for notice in session.model.notices if notice.source == "agent"]
            assert any("interpreter of the server" in remark for remark in remarks)


@needs_root
async def test_a_server_in_a_container_is_reached_by_the_command_that_is_named(tmp_path: Path, python: Path) -> None:
    with serving(tmp_path / "server", "unshare", "-m", str(python)) as server:
        outside = shlex.join([*hiding_pythons('exec "$@"'), "env", "-i", "PATH=/usr/bin:/bin", "HOME=/nonexistent"])
        for _ in range(5):
            with pytest.raises(Refused, match="no Python was found") as refused:
                async with agent(target.via(outside)):
                    pass
            assert "runs in a container" in refused.value.cause
            option, prefix = shlex.split(refused.value.try_)
            enter = re.search(r"nsenter -t (\d+) -a$", prefix)
            assert option == "--via" and enter is not None
            # From where the Pythons are hidden all servers are elsewhere: another test's may be named, and have ended.
            if os.path.exists(f"/proc/{enter[1]}"):
                break
        assert os.path.exists(f"/proc/{enter[1]}")
        async with agent(target.via(f"nsenter -t {server.process.pid} -a")) as session:
            await session.attach(pid=server.process.pid)


@needs_root
async def test_a_target_where_nothing_can_be_written(tmp_path: Path, python: Path) -> None:
    """No home, no temporary directory, no shared memory, no locale; and nothing may be executed from what is left."""
    bare_python(tmp_path / "bin")
    without = (
        "mount -o remount,bind,ro / && for f in /dev/shm /tmp /run; do mount -t tmpfs -o ro none $f; done; "
        "mount -t tmpfs none /mnt && exec env -i PATH=/usr/bin:/bin LC_ALL=POSIX TMPDIR=relative/odd "
        'XDG_RUNTIME_DIR= "$@"'
    )
    with serving(tmp_path / "server", str(python)) as server:
        prefix = shlex.join(["unshare", "-m", "sh", "-c", without, "prefix"])
        async with agent(target.via(prefix)) as session:
            await session.attach(pid=server.process.pid)
            await eventually(lambda: len([row for row in session.model.rank_rows() if row.pid]) == 2)
            stacks = await session.dump()
            assert all(stack.means == "proc" and "py-spy" in (stack.problem or "") for stack in stacks.stacks)
            remarks = [notice.text for notice in session.model.notices if notice.source == "agent"]
            assert any("no place for py-spy" in remark and "read-only" in remark.lower() for remark in remarks), remarks


@needs_root
async def test_a_user_without_a_name_and_without_a_home() -> None:
    prefix = "setpriv --reuid 54321 --regid 54321 --clear-groups env -i PATH=/usr/bin:/bin LC_ALL=C"
    async with agent(target.via(prefix)) as session:
        assert session.hello is not None and session.hello.user == "54321"
        assert isinstance(await session.request("runs"), list)


CLIENT = """
import asyncio, sys
from launchmon.connect import target
from tests.support.client import agent

async def main():
    async with agent(target.via(sys.argv[1])) as session:
        await session.attach(pid=int(sys.argv[2]))
        print(session.hello.pid, flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.parametrize("prefix", [script('"$@"'), script('cat | "$@"')], ids=["directly", "through a relay"])
async def test_an_agent_ends_with_a_client_that_is_killed(tmp_path: Path, python: Path, prefix: str) -> None:
    with serving(tmp_path / "server", str(python)) as server:
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, prefix, str(server.process.pid)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"},
        )
        assert client.stdout is not None
        pid = int(client.stdout.readline())
        assert psutil.pid_exists(pid)
        client.kill()
        client.wait()
        await eventually(lambda: not psutil.pid_exists(pid))
