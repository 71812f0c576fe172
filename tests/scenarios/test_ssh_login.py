"""Logging in over SSH: against OpenSSH's own server, and against one that does what OpenSSH's cannot be made to do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import asyncssh
import pytest

from launchmon.connect import Nobody
from launchmon.connect.ssh import open_channel
from launchmon.connect.ssh.channel import SshChannel
from launchmon_agent.errors import Refused
from launchmon_agent.runs.sockets import answers
from tests.support.sshd import USER, ClientHome, Sshd, make_key, needs_sshd

pytestmark = needs_sshd


class Person:
    """An asker that gives prepared answers, then none, and remembers what it was asked."""

    def __init__(self, *answers: str, agrees: bool = False) -> None:
        self.asked: list[str] = []
        self.secrets: list[bool] = []
        self._answers = list(answers)
        self._agrees = agrees

    async def ask(self, prompt: str, *, secret: bool) -> str | None:
        self.asked.append(prompt)
        self.secrets.append(secret)
        return self._answers.pop(0) if self._answers else None

    async def confirm(self, question: str) -> bool:
        self.asked.append(question)
        return self._agrees


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ClientHome]:
    with ClientHome(tmp_path / "home") as home:
        yield home


@pytest.fixture
def box(tmp_path: Path, home: ClientHome) -> Iterator[Sshd]:
    with Sshd(tmp_path / "box", home) as server:
        home.add_host("box", server)
        yield server


@pytest.fixture
def agent(home: ClientHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running ssh-agent, in force; its socket."""
    path = Path("/tmp") / f"lm-agent-{os.getpid()}"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        while not answers(str(path)):
            assert process.poll() is None
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        yield path
    finally:
        process.terminate()
        process.wait()
        path.unlink(missing_ok=True)


async def output(channel: SshChannel) -> bytes:
    received = b""
    while part := await channel.read():
        received += part
    await channel.close()
    return received


async def said(spec: str, command: str, asker: Person | Nobody | None = None) -> bytes:
    return await output(await open_channel(spec, command, asker or Nobody()))


async def refusal(spec: str, asker: Person | Nobody | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        await open_channel(spec, "true", asker or Nobody())
    return caught.value


# ---------------------------------------------------------------------------------------------------------- the channel


async def test_a_channel_is_stdin_and_stdout_and_says_how_it_ended(box: Sshd) -> None:
    channel = await open_channel("box", "cat; echo 'it \033[31mfailed' >&2; exit 7", Nobody())
    everything = bytes(range(256)) * 2000
    channel.write(everything)
    await channel.drain()
    received = b""
    while len(received) < len(everything):
        received += await channel.read()
    assert received == everything
    ending = await channel.close()
    assert (ending.status, ending.complaints) == (7, "it ␛[31mfailed")
    assert await channel.close() == ending
    assert await channel.read() == b""
    channel.write(b"nobody is there")
    await channel.drain()


async def test_a_login_gets_no_terminal_no_agent_and_none_of_our_variables(
    home: ClientHome, tmp_path: Path, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("DISPLAY", ":0")
    wishes = ("ForwardAgent yes", "ForwardX11 yes", "SendEnv *", "SetEnv OURS=1", "RequestTTY force")
    with Sshd(tmp_path / "box", home, ["AcceptEnv *", "X11Forwarding yes"]) as server:
        home.add_host("box", server, *wishes, "RemoteCommand echo instead")
        env = await said("box", "env; test -t 0 && echo A-TTY")
    assert b"SSH_CONNECTION=" in env
    for word in (b"SECRET_TOKEN", b"SSH_AUTH_SOCK", b"DISPLAY", b"OURS", b"A-TTY", b"SSH_TTY", b"instead"):
        assert word not in env


async def test_a_login_that_is_cut_ends_the_channel(box: Sshd) -> None:
    channel = await open_channel("box", "echo up; cat", Nobody())
    assert await channel.read() == b"up\n"
    await asyncio.to_thread(box.cut)
    assert await channel.read() == b""
    assert (await channel.close()).status is None


async def test_a_server_that_falls_silent_is_given_up(box: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchmon.connect.ssh.route.KEEPALIVE_S", 0.2)
    channel = await open_channel("box", "echo up; cat", Nobody())
    assert await channel.read() == b"up\n"
    (login,) = [process for process in box.logins() if not process.children()] or box.logins()[-1:]
    login.send_signal(signal.SIGSTOP)
    try:
        assert await asyncio.wait_for(channel.read(), 30) == b""
    finally:
        login.send_signal(signal.SIGCONT)
    await channel.close()


# ---------------------------------------------------------------------------------------------------- the configuration


async def test_the_configuration_is_the_persons_own(box: Sshd, home: ClientHome) -> None:
    (home.ssh / "more.conf").write_text(
        f"Host alias-*\n  HostName {box.address}\n"
        f"Match originalhost alias-one exec \"test -e '{home.ssh}'\"\n  Port {box.port}\n"
    )
    home.config.write_text(f"Include more.conf\nMatch all\nUser {USER}\n{home.config.read_text()}")
    assert await said("alias-one", "echo in") == b"in\n"


async def test_a_user_and_port_in_the_target_win(box: Sshd, home: ClientHome) -> None:
    home.config.write_text(f"Host {box.address}\nUser nobody-of-that-name\nPort 1\n{home.config.read_text()}")
    assert await said(box.spec, "echo in") == b"in\n"


async def test_a_configuration_that_is_wrong_names_file_and_line(box: Sshd, home: ClientHome) -> None:
    home.config.write_text(f"Host box\nPort many\n{home.config.read_text()}")
    refused = await refusal("box")
    assert "configuration" in refused.what
    assert str(home.config) in refused.cause and "line 2" in refused.cause
    assert refused.try_.startswith("--via 'ssh box'")


async def test_proxy_jump_goes_through_another_host(box: Sshd, home: ClientHome, tmp_path: Path) -> None:
    with Sshd(tmp_path / "inner", home) as inner:
        home.add_host("inner", inner, "ProxyJump box")
        assert await said("inner", "echo in") == b"in\n"
        assert inner.log.count("Accepted publickey") == 1
        assert box.log.count("Accepted publickey") == 1
        home.add_host("innermost", inner, "ProxyJump box,inner")
        assert await said("innermost", "echo in") == b"in\n"


async def test_a_jump_in_a_circle_ends(box: Sshd, home: ClientHome) -> None:
    home.add_host("here", box, "ProxyJump there")
    home.add_host("there", box, "ProxyJump here")
    assert "circle" in (await refusal("here")).cause


async def test_a_jump_that_leads_nowhere_says_so(box: Sshd, home: ClientHome) -> None:
    home.config.write_text(f"Host beyond\nHostName 127.0.0.1\nPort 1\nProxyJump box\n{home.config.read_text()}")
    refused = await refusal("beyond")
    assert "through box" in refused.what
    assert "refused" in refused.cause


async def test_a_proxy_command_may_write_to_stderr(box: Sshd, home: ClientHome) -> None:
    relay = f"echo hello >&2; exec 3<>/dev/tcp/{box.address}/{box.port}; cat <&3 & cat >&3"
    home.add_host("proxied", box, f"ProxyCommand bash -c '{relay}'")
    assert await said("proxied", "echo in") == b"in\n"


async def test_a_proxy_command_that_fails_is_quoted(box: Sshd, home: ClientHome) -> None:
    home.add_host("proxied", box, "ProxyCommand sh -c \"echo first; echo 'no \033[1mroute'; exit 3\" >&2")
    refused = await refusal("proxied")
    assert "ProxyCommand" in refused.what
    assert refused.cause == "no ␛[1mroute"


# ------------------------------------------------------------------------------------------------------------ host keys


async def test_a_stranger_is_refused_when_nobody_can_be_asked(box: Sshd, home: ClientHome) -> None:
    home.known_hosts.unlink()
    refused = await refusal("box")
    digest = subprocess.run(
        ["ssh-keygen", "-lf", str(box.directory / "host_key.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert "not known yet" in refused.what
    assert f"ED25519 {digest}" in refused.cause
    assert refused.try_ == "ssh box true"
    assert not home.known_hosts.exists()


@pytest.mark.parametrize("checking", ["no", "accept-new", "off"])
async def test_a_configuration_that_checks_nothing_weakens_nothing(box: Sshd, home: ClientHome, checking: str) -> None:
    home.known_hosts.unlink()
    home.add_host("lax", box, f"StrictHostKeyChecking {checking}", "UserKnownHostsFile none", trusted=False)
    assert "not known yet" in (await refusal("lax")).what


async def test_a_stranger_that_somebody_vouches_for_is_known_from_then_on(box: Sshd, home: ClientHome) -> None:
    home.known_hosts.unlink()
    person = Person(agrees=True)
    assert await said("box", "echo in", person) == b"in\n"
    (question,) = person.asked
    assert "box" in question and "ED25519 SHA256:" in question
    assert home.known_hosts.stat().st_mode & 0o777 == 0o600
    assert await said("box", "echo in", Nobody()) == b"in\n"


async def test_a_stranger_that_nobody_vouches_for_is_not_written_down(box: Sshd, home: ClientHome) -> None:
    home.known_hosts.unlink()
    assert "not known yet" in (await refusal("box", Person(agrees=False))).what
    assert not home.known_hosts.exists()


async def test_a_new_name_is_hashed_when_the_configuration_says_so(box: Sshd, home: ClientHome) -> None:
    home.known_hosts.unlink()
    home.config.write_text(f"HashKnownHosts yes\n{home.config.read_text()}")
    assert await said("box", "echo in", Person(agrees=True)) == b"in\n"
    assert home.known_hosts.read_text().startswith("|1|")


@pytest.mark.parametrize("jump", [False, True])
async def test_a_changed_key_is_refused_without_a_question(
    box: Sshd, home: ClientHome, tmp_path: Path, jump: bool
) -> None:
    with Sshd(tmp_path / "inner", home) as inner:
        home.add_host("inner", inner, *(["ProxyJump box"] if jump else []))
        line = len(home.known_hosts.read_text().splitlines())
        inner.stop()
        inner.change_key()
        inner.start()
        person = Person(agrees=True)
        refused = await refusal("inner", person)
        assert person.asked == []
        assert "has changed" in refused.what
        assert f"{home.known_hosts} line {line}" in refused.cause
        assert refused.try_.startswith(f"ssh-keygen -R '[127.0.0.1]:{inner.port}'")


async def test_a_key_of_another_kind_than_the_known_one_is_a_changed_key(box: Sshd, home: ClientHome) -> None:
    other = make_key(home.ssh / "other", kind="ecdsa").with_suffix(".pub").read_text().split()
    home.known_hosts.write_text(f"[{box.address}]:{box.port} {other[0]} {other[1]}\n")
    refused = await refusal("box", Person(agrees=True))
    assert "has changed" in refused.what


async def test_a_revoked_key_is_refused(box: Sshd, home: ClientHome) -> None:
    home.known_hosts.write_text(f"{home.known_hosts.read_text()}@revoked * {box.host_key}\n")
    refused = await refusal("box", Person(agrees=True))
    assert "revoked" in refused.what
    assert f"{home.known_hosts} line 2" in refused.cause


async def test_a_jump_host_is_a_stranger_like_any_other(box: Sshd, home: ClientHome, tmp_path: Path) -> None:
    with Sshd(tmp_path / "inner", home) as inner:
        home.add_host("inner", inner, "ProxyJump box")
        home.known_hosts.write_text(home.known_hosts.read_text().splitlines()[1] + "\n")
        assert "box" in (await refusal("inner")).what


async def test_a_host_key_alias_stands_for_name_and_port(box: Sshd, home: ClientHome) -> None:
    home.add_host("aliased", box, "HostKeyAlias the-box", trusted=False)
    home.known_hosts.write_text(f"the-box {box.host_key}\n")
    assert await said("aliased", "echo in") == b"in\n"


async def test_a_host_certificate_is_trusted_through_its_authority(home: ClientHome, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    with Sshd(tmp_path / "box", home, [f"HostCertificate {tmp_path / 'box' / 'host_key-cert.pub'}"]) as server:
        subprocess.run(
            ["ssh-keygen", "-q", "-s", str(authority), "-I", "box", "-h", "-n", server.address,
             str(server.directory / "host_key.pub")],
            check=True,
        )  # fmt: skip
        server.stop()
        server.start()
        home.add_host("box", server, trusted=False)
        public = " ".join(authority.with_suffix(".pub").read_text().split()[:2])
        home.known_hosts.write_text(f"@cert-authority * {public}\n")
        assert await said("box", "echo in") == b"in\n"


# ----------------------------------------------------------------------------------------------------- keys and secrets


def encrypt(home: ClientHome, server: Sshd, *, public_half: bool) -> None:
    """Put a key behind the passphrase "sesame" in the place of the person's own."""
    make_key(home.key, "sesame")
    server.authorized_keys.write_text(home.key.with_suffix(".pub").read_text())
    if not public_half:
        home.key.with_suffix(".pub").unlink()


@pytest.mark.parametrize("public_half", [True, False])
async def test_a_passphrase_is_asked_for_again_when_it_was_wrong(
    box: Sshd, home: ClientHome, public_half: bool
) -> None:
    encrypt(home, box, public_half=public_half)
    person = Person("wrong", "sesame")
    assert await said("box", "echo in", person) == b"in\n"
    assert len(person.asked) == 2
    assert all(str(home.key) in question for question in person.asked)
    assert person.secrets == [True, True]


async def test_a_passphrase_that_nobody_knows_is_asked_for_three_times(box: Sshd, home: ClientHome) -> None:
    encrypt(home, box, public_half=True)
    person = Person("a", "b", "c", "d")
    refused = await refusal("box", person)
    assert len(person.asked) == 3
    assert "encrypted" in refused.cause
    assert refused.try_ == f"ssh-add {home.key}"


async def test_no_passphrase_is_asked_for_a_key_that_the_server_would_not_take(box: Sshd, home: ClientHome) -> None:
    box.authorized_keys.write_text("")
    make_key(home.key, "sesame")
    person = Person("sesame")
    refused = await refusal("box", person)
    assert person.asked == []
    assert f"tried: key {home.key}" in refused.cause


async def test_the_next_key_is_tried_when_one_is_missing_or_is_no_key(box: Sshd, home: ClientHome) -> None:
    (home.ssh / "garbage").write_text("not a key\n")
    more = f"IdentityFile ~/.ssh/missing\nIdentityFile ~/.ssh/garbage\n{home.config.read_text()}"
    home.config.write_text(more)
    assert await said("box", "echo in") == b"in\n"


async def test_a_user_certificate_beside_the_key_is_used(home: ClientHome, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    subprocess.run(
        ["ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", USER, str(home.key.with_suffix(".pub"))],
        check=True,
    )
    with Sshd(tmp_path / "box", home, [f"TrustedUserCAKeys {authority}.pub"]) as server:
        server.authorized_keys.write_text("")
        home.add_host("box", server)
        assert await said("box", "echo in") == b"in\n"


@pytest.mark.parametrize("only", ["yes", "no"])
async def test_an_agent_signs_for_a_key_that_is_not_here(box: Sshd, home: ClientHome, agent: Path, only: str) -> None:
    subprocess.run(["ssh-add", "-q", str(home.key)], check=True)
    public = home.key.with_suffix(".pub")
    home.key.unlink()
    home.config.write_text(home.config.read_text().replace("IdentitiesOnly yes", f"IdentitiesOnly {only}"))
    home.config.write_text(home.config.read_text().replace(str(home.key), str(public)))
    assert await said("box", "echo in") == b"in\n"


async def test_an_agent_is_not_asked_for_keys_that_are_not_meant(box: Sshd, home: ClientHome, agent: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(home.key)], check=True)
    home.config.write_text(home.config.read_text().replace(str(home.key), str(home.ssh / "another")))
    assert "permission denied" in (await refusal("box")).what


async def test_who_is_let_in_by_nothing_hears_what_was_tried(box: Sshd, home: ClientHome) -> None:
    box.authorized_keys.write_text("")
    refused = await refusal("box")
    assert refused.what == f"{USER}@box let nobody in: permission denied"
    assert str(home.key) in refused.cause
    assert refused.try_.startswith("--via 'ssh box'")


# ------------------------------------------------------------------------------------------------ where nothing answers


async def test_a_closed_port_a_silent_one_and_no_host_are_told_apart(home: ClientHome) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        closed = held.getsockname()[1]
        assert "refused the connection" in (await refusal(f"127.0.0.1:{closed}")).what
        held.listen()
        home.config.write_text("ConnectTimeout 1\n")
        refused = await refusal(f"127.0.0.1:{closed}")
        assert "did not answer within 1 s" in refused.what
    home.config.write_text("")
    refused = await refusal("no-such-host.invalid")
    assert refused.what == "there is no host no-such-host.invalid"


async def test_what_is_no_ssh_server_is_said(home: ClientHome) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n" * 3 + b"\x00\x1b]0;owned\x07" * 1000)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        refused = await refusal(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert "\x1b" not in f"{refused.what}{refused.cause}{refused.try_}"


# ---------------------------------------------------------------------------------- what OpenSSH's server does not show


class Strange(asyncssh.SSHServer):
    """Asks questions, or for a password; ``answers`` are those that it takes."""

    questions: Sequence[tuple[str, bool]] = ()
    answers: Sequence[str] = ()
    password: str | None = None
    rounds = 0

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return False

    def password_auth_supported(self) -> bool:
        return self.password is not None

    def validate_password(self, username: str, password: str) -> bool:
        return password == self.password

    def kbdint_auth_supported(self) -> bool:
        return bool(self.questions)

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> object:
        type(self).rounds += 1
        return "Token \x1b[31mservice", "Look at\nyour phone", "", list(self.questions)

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        return list(responses) == list(self.answers)


@contextlib.asynccontextmanager
async def strange(home: ClientHome, **attributes: object) -> AsyncIterator[str]:
    """A server of asyncssh's own whose key is known; its target."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    kind = type("Stranger", (Strange,), attributes)

    async def handle(process: asyncssh.SSHServerProcess[str]) -> None:
        process.stdout.write("in\n")
        process.exit(0)

    server = await asyncssh.listen("127.0.0.1", 0, server_factory=kind, server_host_keys=[key], process_factory=handle)
    async with server:
        port = server.get_port()
        public = key.export_public_key("openssh").decode().strip()
        home.known_hosts.write_text(f"[127.0.0.1]:{port} {public}\n")
        yield f"me@127.0.0.1:{port}"


async def test_the_servers_questions_are_asked_cleaned(home: ClientHome) -> None:
    questions = [("Code:\x07 ", True), ("PIN: ", False)]
    async with strange(home, questions=questions, answers=["123456", "0000"]) as spec:
        person = Person("1", "2", "123456", "0000")
        assert await said(spec, "x", person) == b"in\n"
    assert person.secrets == [False, True, False, True]
    assert person.asked[0] == "me@127.0.0.1: Token ␛[31mservice Look at your phone Code:␇"


async def test_a_server_that_asks_without_end_is_left(home: ClientHome) -> None:
    async with strange(home, questions=[("More? ", True)], answers=["never"]) as spec:
        person = Person(*["no"] * 100)
        refused = await refusal(spec, person)
    assert len(person.asked) == 3
    assert "answers to the server's questions" in refused.cause


async def test_a_server_that_asks_a_hundred_things_at_once_is_not_answered(home: ClientHome) -> None:
    async with strange(home, questions=[("Q", True)] * 100, answers=[]) as spec:
        person = Person(*["no"] * 1000)
        assert "permission denied" in (await refusal(spec, person)).what
    assert person.asked == []


async def test_a_password_is_asked_for_three_times_and_not_at_all_of_nobody(home: ClientHome) -> None:
    async with strange(home, password="sesame") as spec:
        person = Person("a", "b", "sesame")
        assert await said(spec, "x", person) == b"in\n"
        assert len(person.asked) == 3
        assert "nobody gave one" in (await refusal(spec)).cause
        assert "a password" in (await refusal(spec, Person("a", "b", "c", "d"))).cause


async def test_time_to_think_is_not_counted(home: ClientHome) -> None:
    home.config.write_text("ConnectTimeout 4\n")

    class Slow(Person):
        async def ask(self, prompt: str, *, secret: bool) -> str | None:
            await asyncio.sleep(4.5)
            return await super().ask(prompt, secret=secret)

    async with strange(home, password="sesame") as spec:
        assert await said(spec, "x", Slow("sesame")) == b"in\n"


# --------------------------------------------------------------------------------------------------------- other shells


@pytest.mark.parametrize("shell", ["fish", "csh", "zsh", "dash"])
def test_the_command_means_the_same_to_every_shell(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} is installed")
    from launchmon.connect import bootstrap

    done = subprocess.run(
        [program, "-c", f"exec {bootstrap.COMMAND}"], input=b"echo in\n", capture_output=True, check=True
    )
    assert done.stdout == b"in\n"
