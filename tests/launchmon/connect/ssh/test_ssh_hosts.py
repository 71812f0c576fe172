from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import asyncssh
import pytest

from launchmon.connect.ssh.hosts import KnownHosts, fingerprint, name

needs_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen is installed")

HASHED = "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg="
"""``192.168.1.61``, from sshd(8)'s format as ssh-keygen -H writes it."""


def key(kind: str = "ssh-ed25519") -> asyncssh.SSHKey:
    return asyncssh.generate_private_key(kind).convert_to_public()


def line(hosts: str, public: asyncssh.SSHKey) -> str:
    return f"{hosts} {public.export_public_key('openssh').decode().strip()}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dir" / "known_hosts"


def test_a_name_has_its_port_unless_it_is_the_usual_one() -> None:
    assert name("GPU7", 22) == name("gpu7", None) == "gpu7"
    assert name("::1", 2222) == "[::1]:2222"


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("gpu7", "gpu7", True),
        ("gpu7,10.0.0.7", "10.0.0.7", True),
        ("*.lab", "gpu7.lab", True),
        ("gpu?", "gpu7", True),
        ("gpu?", "gpu77", False),
        ("*.lab,!gpu7.lab", "gpu7.lab", False),
        ("!gpu7.lab,*.lab", "gpu8.lab", True),
        ("[gpu7]:2222", "[gpu7]:2222", True),
        ("[gpu7]:2222", "gpu7", False),
        ("[gpu]*", "g", False),  # brackets mean nothing
        (HASHED, "192.168.1.61", True),
        (HASHED, "192.168.1.62", False),
        ("|1|not base64|!", "gpu7", False),
    ],
)
def test_patterns_match_as_they_do_for_openssh(file: Path, pattern: str, host: str, expected: bool) -> None:
    file.parent.mkdir()
    file.write_text(line(pattern, key()))
    assert bool(KnownHosts([str(file)]).find(host)) is expected


def test_an_entry_says_where_it_is_written_and_what_it_means(file: Path) -> None:
    file.parent.mkdir()
    good, bad, authority = key(), key(), key()
    file.write_text(
        "# a comment\n\ngpu7\ngpu7 ssh-ed25519 nonsense\n"
        + line("gpu7", good)
        + line("@revoked gpu7", bad)
        + line("@cert-authority *", authority)
        + line("@unheard-of gpu7", key())
    )
    found = KnownHosts([str(file.parent / "missing"), str(file)]).find("gpu7")
    assert [(entry.marker, entry.line) for entry in found] == [("", 5), ("revoked", 6), ("cert-authority", 7)]
    assert {entry.path for entry in found} == {str(file)}
    assert KnownHosts([str(file)]).trusted("gpu7", None) == ([good], [authority], [bad])


def test_what_is_known_of_a_host_counts_for_its_ports_until_one_of_them_is_known(file: Path) -> None:
    file.parent.mkdir()
    plain, of_port = key(), key()
    file.write_text(line("gpu7", plain))
    assert KnownHosts([str(file)]).trusted("gpu7", 2222)[0] == [plain]
    file.write_text(line("gpu7", plain) + line("[gpu7]:2222", of_port))
    assert KnownHosts([str(file)]).trusted("gpu7", 2222)[0] == [of_port]


def test_an_accepted_key_is_written_on_a_line_of_its_own(file: Path) -> None:
    first, second = key(), key()
    known = KnownHosts([str(file)])
    known.accept("gpu7", first, hashed=False)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.write_text(file.read_text().rstrip("\n"))  # an editor left no line end
    known.accept("gpu8", second, hashed=True)
    again = KnownHosts([str(file)])
    assert again.trusted("gpu7", None)[0] == [first]
    assert again.trusted("gpu8", None)[0] == [second]
    assert "gpu8" not in file.read_text()


def test_a_key_that_cannot_be_written_down_is_trusted_for_this_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    known = KnownHosts([str(tmp_path / "file" / "known_hosts")])
    accepted = key()
    known.accept("gpu7", accepted, hashed=False)
    assert known.trusted("gpu7", None)[0] == [accepted]


@needs_ssh_keygen
@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
def test_openssh_finds_what_was_written_and_gives_the_same_fingerprint(file: Path, kind: str, hashed: bool) -> None:
    public = key(kind)
    KnownHosts([str(file)]).accept("[gpu7]:2222", public, hashed=hashed)
    found = subprocess.run(
        ["ssh-keygen", "-l", "-F", "[gpu7]:2222", "-f", str(file)], capture_output=True, text=True, check=True
    ).stdout
    said, digest = fingerprint(public).split()
    assert digest in found
    assert f" {said} " in found.replace("(", " ").replace(")", " ")
