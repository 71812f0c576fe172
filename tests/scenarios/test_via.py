"""Any command prefix with a pipe: words run as they are or joined for another shell, noise, terminals, refusals."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from launchmon.connect import target
from launchmon_agent.errors import Refused
from tests.support.client import agent, eventually
from tests.support.demo import DemoServer
from tests.support.prefixes import needs, needs_root, script
from tests.support.sshd import ClientHome, Sshd, needs_sshd

NOISE = r"echo 'Welcome to gpu7!'; printf 'launchmon-agent-ready'; echo 'rc: no such file' >&2; "
IN_A_TERMINAL = 'exec script -qec "$*" /dev/null'

PREFIXES = {
    "words as they are": "env LAUNCHMON_TEST=1",
    "words passed on": script('"$@"'),
    "words joined and split again": script("exec $*"),
    "words joined twice": script("sh -c 'exec $*' x $*"),
    "noise before": script(NOISE + 'exec "$@"'),
    "slow to begin": script('sleep 1; exec "$@"'),
    "a relay in between": script('cat | "$@" | cat'),
}
TERMINALS = {
    "a terminal": script(IN_A_TERMINAL),
    "a terminal and noise": script(NOISE + IN_A_TERMINAL),
    "a terminal with a shell that edits lines": script("exec script -qec 'bash --posix' /dev/null"),
}
"""``docker exec -it`` and ``ssh -tt`` look like this from inside."""


async def serves(prefix: str) -> None:
    """An agent comes up through the prefix, answers, and is gone when the session is closed."""
    async with agent(target.via(prefix)) as session:
        assert session.hello is not None and session.hello.found == "path"
        assert isinstance(await session.request("runs"), list)
        pid = session.hello.pid
    await eventually(lambda: not psutil.pid_exists(pid))


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
async def test_a_prefix(prefix: str) -> None:
    await serves(prefix)


@needs("script")
@pytest.mark.parametrize("prefix", TERMINALS.values(), ids=TERMINALS)
async def test_a_prefix_with_a_terminal(prefix: str) -> None:
    await serves(prefix)


@needs("sudo")
@needs_root
async def test_sudo() -> None:
    await serves("sudo -n")


@needs("nsenter")
@needs_root
async def test_nsenter() -> None:
    await serves(f"nsenter -t {os.getpid()} -m -n -p")


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"lm-{os.getpid()}"
    assert os.system(f"ip netns add {name}") == 0
    yield name
    os.system(f"ip netns delete {name}")


@needs("ip")
@needs_root
async def test_a_network_namespace(namespace: str) -> None:
    await serves(f"ip netns exec {namespace}")


async def test_a_prefix_that_passes_whole_lines_on_only(tmp_path: Path) -> None:
    """As ``srun`` does: compressed bytes would lie there until one of them ends a line."""
    program = tmp_path / "srun"
    program.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "for line in child.stdout:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"
        "sys.exit(child.wait())\n"
    )
    program.chmod(0o755)
    await serves(shlex.quote(str(program)))


async def test_a_run_is_followed_through_a_terminal(tmp_path: Path) -> None:
    if shutil.which("script") is None:
        pytest.skip("script is not installed")
    server = DemoServer(tmp_path, "--tp", "2", "--speed", "8")
    try:
        async with agent(target.via(script(IN_A_TERMINAL))) as session:
            run = await session.attach(pid=server.process.pid)
            assert run.port == server.port
            await eventually(lambda: session.model.verdict and session.model.verdict.verdict == "ready")
            window = await session.window("end", 20, 0)
            assert any("fired up" in line.text for line in window.lines)
    finally:
        server.end()


# ------------------------------------------------------------------------------------------------------------------ ssh


SHELLS = ["bash", "dash", "zsh", "fish", "tcsh"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ClientHome]:
    with ClientHome(tmp_path / "home") as made:
        yield made


def ssh(home: ClientHome, server: Sshd, *options: str) -> str:
    """ssh(1) with this configuration: it does not ask $HOME where that is."""
    home.add_host("box", server)
    return shlex.join(["ssh", "-F", str(home.config), "-o", f"UserKnownHostsFile={home.known_hosts}", *options, "box"])


@needs_sshd
@pytest.mark.parametrize("options", [(), ("-tt",)], ids=["pipe", "terminal"])
async def test_the_ssh_program(home: ClientHome, tmp_path: Path, options: tuple[str, ...]) -> None:
    with Sshd(tmp_path / "box", home, ["Banner /etc/os-release"]) as server:
        await serves(ssh(home, server, *options))


@needs_sshd
@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in SHELLS])
async def test_a_login_shell_of_any_kind(home: ClientHome, tmp_path: Path, shell: str) -> None:
    with Sshd(tmp_path / "box", home, [f'ForceCommand {shutil.which(shell)} -c "$SSH_ORIGINAL_COMMAND"']) as server:
        await serves(ssh(home, server))


@needs_sshd
async def test_ssh_to_a_host_that_is_not_known_does_not_ask_and_says_so(home: ClientHome, tmp_path: Path) -> None:
    with Sshd(tmp_path / "box", home) as server:
        prefix = ssh(home, server)
        home.known_hosts.write_text("")
        with pytest.raises(Refused) as refused:
            await serves(prefix)
    assert "no terminal here to ask" in refused.value.cause and refused.value.try_.startswith("ssh box true")


@needs_sshd
async def test_ssh_that_would_ask_for_a_password_does_not_and_says_so(home: ClientHome, tmp_path: Path) -> None:
    with Sshd(tmp_path / "box", home, ["PasswordAuthentication yes"]) as server:
        prefix = ssh(home, server)
        server.authorized_keys.write_text("")
        with pytest.raises(Refused) as refused:
            await serves(prefix)
    assert "Permission denied" in refused.value.what and "--on box" in refused.value.try_


# ------------------------------------------------------------------------------------------------------------- refusals


REFUSALS = {
    "no such program": ("no-such-program -i", "cannot be started on this machine", "command -v no-such-program"),
    "no Python": (script("exit 97"), "no Python was found", "uv python install"),
    "may not run": (script("exit 126"), "status 126", "sh -c id"),
    "not found": (script("exit 127"), "status 127", "sh -c id"),
    "does not pass stdin on": (script('"$@" </dev/null'), "status 0", "docker exec -i"),
    "dies early": (script("read -r x; echo 'out of memory' >&2; kill -9 $$"), "signal 9", ""),
    "dies while Python starts": (script('"$@" | { read -r x; read -r x; echo "$x"; }; exit 3'), "", ""),
}


@pytest.mark.parametrize("prefix, what, try_", REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_says_what_happened(prefix: str, what: str, try_: str) -> None:
    with pytest.raises(Refused) as refused:
        await serves(prefix)
    assert what in refused.value.what and try_ in refused.value.try_, vars(refused.value)


@needs("sudo")
@needs_root
async def test_sudo_that_wants_a_password_does_not_wait_for_one() -> None:
    with pytest.raises(Refused) as refused:
        await serves("setpriv --reuid 65534 --regid 65534 --clear-groups sudo")
    assert "password" in refused.value.cause and "NOPASSWD" in refused.value.try_
